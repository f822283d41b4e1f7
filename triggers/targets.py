"""Targets: what a trigger fires, written ``ROLE.METHOD`` in tables, journals and messages."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from artos.specs.keys import ANSWER
from artos.specs.members import ACTORS, NOT_LEARNERS, TRANSFER

WITHOUT_A_METHOD = ("sync", "prewarm")
"""What actors do without a method of theirs: bind weights, have their process restored."""


class Target(NamedTuple):
    """A role, and what its members are to do; a transfer has no method.

    What a table's checks ask about a target is asked here: they know roles by name only, as there
    are no members yet.
    """

    role: str
    method: str

    @property
    def learns(self) -> bool:
        """Whether it is a method of a learner: these have any other names."""
        return self.role not in NOT_LEARNERS and not self.answers

    @property
    def samples(self) -> bool:
        """Whether it grants rounds of sampling."""
        return self.role == ACTORS and self.method not in WITHOUT_A_METHOD

    @property
    def answers(self) -> bool:
        """Whether it has a server answer; checked by that server, where the requests are."""
        return self.method == ANSWER and self.role not in NOT_LEARNERS

    @property
    def ships(self) -> bool:
        """Whether it has rows shipped to the replay buffer."""
        return self.role == TRANSFER


@cache
def parsed(target: str) -> Target:
    """The target that is written so; each is parsed once."""
    role, _, method = target.partition(".")
    return Target(role, method)
