"""An actor that came from another node."""

from __future__ import annotations

from typing import NamedTuple

from artos.specs.members import Member


class Arrival(NamedTuple):
    """An actor from another node goes on here, ``seconds`` after it was expected.

    ``lost`` is "", or says why its image could not be used; the actor then starts again.
    """

    member: Member
    seconds: float
    lost: str
