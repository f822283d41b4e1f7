"""A submitted run as the head knows it, and all that a restarted head must know."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import msgspec

from artos.plan import CPU
from artos.protocol.control import RunUp
from artos.protocol.unreadable import UNREADABLE
from artos.protocol.views import RunFacts
from artos.run_state import ACTIVE, OVER, QUEUED, RUNNING, STARTING, at_the_end
from head.daemon.quotas import Quotas
from head.daemon.roster import Known
from head.daemon.run_queue import QueueState


class Seconds(msgspec.Struct, frozen=True):
    """Seconds for which CPU slots and devices were held."""

    cpu: float = 0.0
    device: float = 0.0

    def plus(self, other: Seconds) -> Seconds:
        """The sums."""
        return Seconds(self.cpu + other.cpu, self.device + other.device)


class _Planned(msgspec.Struct):
    """What is read here of a run's plan: the device of its learner."""

    device: str = CPU


class Run(msgspec.Struct):
    """One submitted run. ``request`` holds the flags of ``artos run`` as plain data.

    ``outcome`` is one of ``OUTCOMES`` once it is known; ``why`` explains it. ``up`` was sent by the
    living run process, ``places`` maps actors to nodes. ``deaths`` counts how often the process was
    killed since the run last got further than ever before (``reached``, in steps). ``admitted``:
    it has begun and is not over; until then it waits since ``waits_since`` (0: not known yet).
    ``user`` submitted it; ``device`` is that of its learner, "" until its plan is known.
    ``accepted``: a process of it was up, so its workload is not to be refused any more.
    ``by_hand`` is the number of actors that a user asked for while it went on, 0 if nobody did.
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
    facts: RunFacts | None = None
    admitted: bool = False
    waits_since: float = 0.0
    user: str = ""
    device: str = ""
    accepted: bool = False
    by_hand: int = 0

    def is_up(self, up: RunUp) -> None:
        """Its process is registered."""
        self.up, self.accepted = up, True
        self.state = RUNNING if self.state == STARTING else self.state
        with suppress(*UNREADABLE):
            self.device = msgspec.json.decode(up.plan, type=_Planned).device

    @property
    def begins_again(self) -> bool:
        """Whether it is to be up again: if its process cannot begin now, that is an accident.

        Somebody killed its registration, say, or the machine was short of memory.
        """
        return self.accepted and self.up is None

    @property
    def workload(self) -> str:
        """The name that it is charged under, with other runs of the same workload."""
        return str(self.request.get("workload") or self.name)

    @property
    def ticket(self) -> str:
        """That of its submission."""
        return str(self.request.get("ticket", ""))

    @property
    def weight(self) -> float:
        """The share of slots that its workload is to have, relative to others."""
        weight = self._setting("weight", 1.0)
        return weight if weight > 0 else 1.0

    @property
    def priority(self) -> int:
        """Runs of a higher one begin first."""
        return int(self._setting("priority", 0.0))

    @property
    def asks_device(self) -> bool:
        """Whether its submission says that its learner computes on more than the CPU."""
        return str(self._settings.get("device", CPU)) != CPU

    @property
    def has_device(self) -> bool:
        """Whether its learner computes on more than the CPU, by its plan once there is one."""
        return self.device != CPU if self.device else self.asks_device

    @property
    def held(self) -> Seconds:
        """What its process has held so far."""
        usage = self.facts.usage if self.facts else {}
        return Seconds(*(usage.get(f"{name}_seconds_held", 0.0) for name in ("cpu", "device")))

    @property
    def _settings(self) -> dict[str, Any]:
        found: dict[str, Any] = self.request.get("settings", {})
        return found

    def _setting(self, name: str, default: float) -> float:
        """What is no number counts as the default here, and is refused when the run registers."""
        try:
            value = float(self._settings.get(name, default))
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
    """What a restarted head must know.

    ``spent`` has the seconds of runs that have ended, by user and workload with a quota.
    """

    runs: tuple[Run, ...] = ()
    nodes: tuple[Known, ...] = ()
    queue: QueueState = QueueState()
    quotas: Quotas = Quotas()
    spent: dict[str, Seconds] = {}
