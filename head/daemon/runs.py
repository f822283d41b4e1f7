"""One submitted run as the head keeps it, and what is kept of all of them in the state file."""

from __future__ import annotations

from typing import Any

import msgspec

from artos.protocol.control import RunUp
from artos.run_state import ACTIVE, OVER, QUEUED, at_the_end
from head.daemon.roster import Known


class Run(msgspec.Struct):
    """One submitted run. ``request`` is what ``artos run`` takes, as plain data.

    ``outcome`` is one of ``OUTCOMES`` once it is known; ``why`` explains it. ``up`` is what the
    living run process said about itself, ``places`` where its actors are. ``deaths`` counts how
    often its process was killed since it last got further than ever before (``reached``, in steps).
    """

    name: str
    request: dict[str, Any]
    folder: str
    archive: str = ""
    placement: str = "spread"
    state: str = QUEUED
    resume: bool = False
    epoch: int = 0
    up: RunUp | None = None
    places: dict[int, str] = {}
    deaths: int = 0
    reached: int = 0
    outcome: str = ""
    why: str = ""
    waits_for: str = ""
    facts: dict[str, Any] = {}

    @property
    def active(self) -> bool:
        """Whether it has, or is about to have, a process."""
        return self.state in ACTIVE

    @property
    def over(self) -> bool:
        """Whether nothing more comes of it, unless it is submitted again to be continued."""
        return self.state in OVER

    def end(self, outcome: str, why: str) -> None:
        """It is over."""
        self.state = at_the_end(outcome)
        self.outcome, self.why, self.waits_for, self.up = outcome, why, "", None


class State(msgspec.Struct, frozen=True):
    """What the head must know after it was killed: the state file."""

    runs: tuple[Run, ...] = ()
    nodes: tuple[Known, ...] = ()
