"""What an actor of a node goes on from in this part of a run, and what it held in the end."""

from __future__ import annotations

import logging
from pathlib import Path

from artos.runtime.held import Held
from artos.specs.members import Member

_log = logging.getLogger(__name__)


class HeldFile:
    """A file in the run's memory, for a ``member`` that is one of so many ``actors``."""

    def __init__(self, member: Member, path: Path, actors: int) -> None:
        self._member, self._path, self._actors = member, path, actors
        self._goes_on = False
        self._base: int | None = None

    def begin(self) -> None:
        """The part of the run begins: what is in the file by now is of the part before."""
        self._goes_on = self._path.exists()

    def at(self, base: int) -> None:
        """The actor goes on at row ``base``; if that is not where it began, it has taken it up."""
        if self._base is not None and base != self._base:
            self.taken_up()
        self._base = base

    def to_send(self) -> bytes:
        """What the actor is to go on from where it is started; empty if it begins anew."""
        held = Held.read(self._path) if self._goes_on else None
        if held is None:
            return b""
        held = held.to_send(self._actors)
        if not held.data:
            _log.warning("%s starts again: %s", self._member, held.why)
        return held.data

    def taken_up(self) -> None:
        """The actor has gone on from it: that counts once."""
        if self._goes_on:
            self._goes_on = False
            self._path.unlink(missing_ok=True)

    def keep(self, held: Held) -> None:
        """Keep what the actor held when it ended."""
        held.to_send(self._actors).keep(self._path)
