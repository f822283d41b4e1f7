"""Where actors of a replay ask servers: they are told what they were told in the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from artos.buffer.desk import Desk, first_number
from artos.runs.answers import Answers
from artos.specs.members import ACTORS, Member
from artos.specs.servers import ServerSpec
from deploy.replay.difference import Over


class RecordedDesk(Desk):
    """A seat of an actor's ``incarnation`` at a server that is not there."""

    def __init__(
        self, server: ServerSpec, answers: Answers, actor: int, seat: int, incarnation: int
    ) -> None:
        self._answers, self._place = answers, actor * server.seats + seat
        self.last = first_number(incarnation) - 1
        self.version = -1
        self._who = f"{server.name}'s answer to a request of {Member(ACTORS, actor)}"

    def ask(self, asked: Mapping[str, NDArray[Any]]) -> None:
        """Its answer is the next one."""
        del asked
        self.last += 1

    def take(self) -> dict[str, NDArray[Any]]:
        """What it was told.

        Raises:
            Over: that was not recorded.
        """
        found = self._answers.get(self._place, self.last)
        if found is None:
            raise Over(f"{self._who} was not recorded")
        self.version = found.version
        return found.arrays
