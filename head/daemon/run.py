"""A submitted run as the head knows it, and all that a restarted head must know."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from artos.protocol.control import RunUp
from artos.run_state import ACTIVE, OVER, QUEUED, at_the_end
from head.daemon.roster import Known
from head.daemon.run_queue import QueueState


class Run(msgspec.Struct):
    """One submitted run. ``request`` holds the flags of ``artos run`` as plain data.

    ``outcome`` is one of ``OUTCOMES`` once it is known; ``why`` explains it. ``up`` was sent by the
    living run process, ``places`` maps actors to nodes. ``deaths`` counts how often the process was
    killed since the run last got further than ever before (``reached``, in steps). ``admitted``:
    it has begun and is not over; until then it waits since ``waits_since`` (0: not known yet).
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
    admitted: bool = False
    waits_since: float = 0.0

    @property
    def workload(self) -> str:
        """The name that it is charged under, with other runs of the same workload."""
        return str(self.request.get("workload") or self.name)

    @property
    def weight(self) -> float:
        """The share of slots that its workload is to have, relative to others."""
        weight = self._setting("weight", 1.0)
        return weight if weight > 0 else 1.0

    @property
    def priority(self) -> int:
        """Runs of a higher one begin first."""
        return int(self._setting("priority", 0.0))

    def _setting(self, name: str, default: float) -> float:
        """What is no number counts as the default here, and is refused when the run registers."""
        try:
            value = float(self.request.get("settings", {}).get(name, default))
        except (TypeError, ValueError):
            return default
        return value if math.isfinite(value) else default

    @property
    def active(self) -> bool:
        """Whether the run has, or is about to have, a process."""
        return self.state in ACTIVE

    @property
    def over(self) -> bool:
        """Whether the run has ended; it may still be submitted again to be resumed."""
        return self.state in OVER

    def end(self, outcome: str, why: str) -> None:
        """The run is over."""
        self.state = at_the_end(outcome)
        self.outcome, self.why, self.waits_for, self.up = outcome, why, "", None
        self.admitted = False


class State(msgspec.Struct, frozen=True):
    """The contents of the state file: what a restarted head must know."""

    runs: tuple[Run, ...] = ()
    nodes: tuple[Known, ...] = ()
    queue: QueueState = QueueState()
