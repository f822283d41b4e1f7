"""An actor that came from another node."""

from __future__ import annotations

from typing import NamedTuple

from artos.specs.members import Member


class Arrival(NamedTuple):
    """An actor from another node goes on here."""

    member: Member
    seconds: float
    """How long after it was expected."""
    lost: str
    """Why its image could not be used, so that it starts again; "" if it could."""
