"""A submitted run as the head knows it, and all that a restarted head must know."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from artos.protocol.control import RunUp
from artos.protocol.run_keys import RunKeys
from artos.protocol.run_state import ACTIVE, OVER, QUEUED, RUNNING, STARTING, at_the_end
from artos.protocol.views import RunFacts
from artos.specs import devices, weight
from artos.specs.devices import CPU
from artos.specs.unreadable import UNREADABLE
from head.daemon.quotas import Quotas
from head.daemon.roster import Known
from head.daemon.run_queue import QueueState

_MOST_ACTORS = 2**16


class Seconds(msgspec.Struct, frozen=True):
    """Seconds for which CPU slots and devices were held."""

    cpu: float = 0.0
    device: float = 0.0

    @classmethod
    def of(cls, facts: RunFacts | None) -> Seconds:
        """Those of a run's bill."""
        usage = facts.usage if facts else {}
        return cls(usage.get("cpu_seconds_held", 0.0), usage.get("device_seconds_held", 0.0))

    def plus(self, other: Seconds) -> Seconds:
        """The sums of both kinds of seconds."""
        return Seconds(self.cpu + other.cpu, self.device + other.device)


class Sought(NamedTuple):
    """What a run seeks of the machine that is to carry it."""

    device: str
    account: bool = False
    """Whether its process has an account of its user."""


class _Learner(msgspec.Struct):
    """The part of a run's plan that is read here of a learner beside the first."""

    device: str = CPU
    replicas: int = 1


class _Planned(msgspec.Struct):
    """The part of a run's plan that is read here."""

    device: str = CPU
    """Where its first learner computes."""
    beside: tuple[_Learner, ...] = ()
    replicas: int = 1

    @property
    def devices(self) -> list[str]:
        """Those of all learners that are not the CPU, one for each replica."""
        each = (_Learner(self.device, self.replicas), *self.beside)
        return [of.device for of in each if of.device != CPU for _ in range(of.replicas)]


class Run(msgspec.Struct):
    """One submitted run."""

    name: str
    request: dict[str, Any]
    """The flags of ``artos run`` as plain data."""
    folder: str
    archive: str = ""
    """The name of its code's archive, "" without one."""
    placement: str = "spread"
    """One of ``POLICIES``."""
    where: tuple[str, ...] = ()
    """Labels that its actors' nodes have."""
    state: str = QUEUED
    resume: bool = False
    """Whether its next process continues from a checkpoint."""
    epoch: int = 0
    """Number of processes started for it so far."""
    up: RunUp | None = None
    """What its living process has registered."""
    places: dict[int, str] = {}
    """The node of each actor."""
    deaths: int = 0
    """How often its process was killed since ``reached`` last grew."""
    reached: int = 0
    """The most environment steps it ever got to."""
    outcome: str = ""
    """One of ``OUTCOMES`` once it is known."""
    why: str = ""
    """Explains the outcome."""
    waits_for: str = ""
    facts: RunFacts | None = None
    """The newest facts that its process has reported, for users."""
    admitted: bool = False
    """Whether it has begun and is not over."""
    waits_since: float = 0.0
    """Time from which it has waited to be admitted; 0: not known yet."""
    user: str = ""
    """Who submitted it."""
    account: str = ""
    """The system account of its processes where a daemon may switch; "": the daemon's own."""
    keys: RunKeys | None = None
    """Its own keys, if it has an account: its processes may not read the cluster's."""
    device: str = ""
    """Where its learner computes, the first one that is not on the CPU; "" until that is known."""
    device_count: int = 0
    """How many devices its learners compute on, beside the CPU, once its plan is known."""
    accepted: bool = False
    """Whether a process of it was ever up: its workload is then not refused any more."""
    goes_on: bool = False
    """Whether its process saves only because the head's machine is taken back."""
    no_room: bool = False
    """Whether its last process ended as memory had no room for it, and none is left to be asked."""
    never_began: int = 0
    """How many of its processes ended so, and those of a run that had its name before."""
    billed: Seconds = Seconds()
    """What its ended processes held, as far as what it reports has it, too: it is in the books."""
    carrier: str = ""
    """The node that carries its process, or carried the last one; "": the head's machine."""
    by_hand: int = 0
    """The number of actors that a user last asked for while it ran; 0: no one has."""
    few_slots: str = ""
    """Which quota keeps slots from its actors, as its process was last told."""
    was: str = ""
    """The outcome that it had before it was submitted to go on."""
    stop_asked: bool = False
    """Whether a user has asked for the end of its process."""
    without_room: tuple[str, ...] = ()
    """Machines whose memory has had no room for it since it was last up; "": the head's."""
    heard: int = 0
    """The last epoch whose process has reported facts."""

    def is_up(self, up: RunUp) -> None:
        """Record that its process is registered."""
        self.up, self.accepted, self.without_room = up, True, ()
        if self.state == STARTING:  # it may have been given up meanwhile
            self.state, self.outcome, self.why = RUNNING, "", ""
        with suppress(*UNREADABLE):
            planned = msgspec.json.decode(up.plan, type=_Planned)
            self.device = next(iter(planned.devices), CPU)
            self.device_count = len(planned.devices)

    def reported(self, facts: RunFacts) -> None:
        """Its process has reported these facts.

        It goes on from the bill of a checkpoint. What an earlier process held after that is in the
        books, and not in what this one reports.
        """
        self.facts = facts
        if self.heard < self.epoch:
            self.heard, now, before = self.epoch, Seconds.of(facts), self.billed
            self.billed = Seconds(min(before.cpu, now.cpu), min(before.device, now.device))

    def bytes_on_a_node(self, actors: int) -> int:
        """Shared memory that it takes on a node with so many of its actors."""
        return self.up.executor_bytes + actors * self.up.actor_bytes if self.up and actors else 0

    @property
    def restarts(self) -> int:
        """How often it was begun again."""
        return max(0, self.epoch - 1 - self.never_began)

    @property
    def begins_again(self) -> bool:
        """Whether it was up before and is to be up again.

        If such a process cannot begin, that is an accident, not a fault of the workload: it was
        killed while it registered, say, or the machine was short of memory.
        """
        return self.accepted and self.up is None

    @property
    def workload(self) -> str:
        """The name that it has in common with other runs of the same workload, for quotas."""
        return str(self.request.get("workload") or self.name)

    @property
    def charged_to(self) -> str:
        """Whose share of slots it takes: that of all runs of this workload by the same user."""
        return f"{self.user}/{self.workload}" if self.user else self.workload

    @property
    def ticket(self) -> str:
        """The ticket of its submission."""
        return str(self.request.get("ticket", ""))

    @property
    def weight(self) -> float:
        """The share of slots that its user gets for its workload, relative to others."""
        value = self._setting("weight", 1.0)
        return min(max(value, weight.LEAST), weight.MOST) if value > 0 else 1.0

    @property
    def priority(self) -> int:
        """Runs with a higher priority begin first."""
        return int(self._setting("priority", 0.0))

    @property
    def asks_actors(self) -> int:
        """The number of actors that its submission names; 1 if it names none, or a rule."""
        return max(1, min(int(self._setting("actors", 1.0)), _MOST_ACTORS))

    @property
    def asks_device(self) -> bool:
        """Whether its submission says that its learner computes on a device other than the CPU."""
        return self.asks_for != CPU

    @property
    def has_code(self) -> bool:
        """Whether its workload is a user's own, which may name a device."""
        return ".py:" in self.workload

    @property
    def asks_for(self) -> str:
        """The device that its submission names, as ``cuda:0`` or ``pool``, for the first learner
        that is not to compute on the CPU."""
        return devices.sought(self._settings.get("device", CPU))

    @property
    def sought(self) -> Sought | None:
        """What a node must have to carry it; None: it lives on the head's machine.

        Its code may name a device, which is known from when it was registered.
        """
        device = self.asks_for if self.asks_device else self.device or CPU
        if device == CPU or self.keys is None:  # its keys are enough there
            return None
        return Sought(device, bool(self.account))

    @property
    def has_device(self) -> bool:
        """Whether its learner computes on another device than the CPU: by its plan, if known."""
        return self.device != CPU if self.device else self.asks_device

    @property
    def devices(self) -> int:
        """How many devices its learners compute on: by its plan, or as its submission says."""
        if self.device_count or not self.has_device:
            return self.device_count
        return max(1, len(devices.beside_cpu(self._settings.get("device", CPU))))

    @property
    def held(self) -> Seconds:
        """What its process has held, without what earlier ones did, which it reports, too."""
        now, before = Seconds.of(self.facts), self.billed
        return Seconds(max(0.0, now.cpu - before.cpu), max(0.0, now.device - before.device))

    @property
    def _settings(self) -> dict[str, Any]:
        found: dict[str, Any] = self.request.get("settings", {})
        return found

    def _setting(self, name: str, default: float) -> float:
        """The setting, or ``default`` if it is no number: registration then refuses the run."""
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

    def begin(self, carrier: str = "") -> None:
        """Enter the next epoch: a process of the run is about to start, on that node."""
        self.state, self.epoch, self.carrier = STARTING, self.epoch + 1, carrier
        self.outcome = self.why = self.waits_for = self.few_slots = ""
        self.goes_on = self.no_room = self.stop_asked = False

    def again(self, waits_for: str) -> None:
        """Put it back into the queue: its next process continues from its last checkpoint."""
        self.outcome = self.why = ""
        self.state, self.resume, self.waits_for = QUEUED, True, waits_for

    def end(self, outcome: str, why: str) -> None:
        """Record that the run is over."""
        self.state = at_the_end(outcome)
        self.outcome, self.why, self.waits_for, self.up = outcome, why, "", None
        self.admitted = self.goes_on = False


class State(msgspec.Struct, frozen=True):
    """What a restarted head must know."""

    runs: tuple[Run, ...] = ()
    nodes: tuple[Known, ...] = ()
    queue: QueueState = QueueState()
    quotas: Quotas = Quotas()
    spent: dict[str, Seconds] = {}
    """Seconds held by runs that have ended, by user and workload with a quota."""
    boot: str = ""
    """The ``boot_id`` of the machine by whose clock its times are."""

    def on(self, boot: str) -> State:
        """The same for a head on a machine, or after a start of it, of this ``boot_id``.

        Times by another clock mean nothing there: nobody has held or waited meanwhile.
        """
        if boot == self.boot:
            return self
        for run in self.runs:
            run.waits_since = 0.0
        accounts = tuple(replace(each, units=0) for each in self.queue.accounts)
        queue = msgspec.structs.replace(self.queue, accounts=accounts)
        return msgspec.structs.replace(self, queue=queue, boot=boot)
