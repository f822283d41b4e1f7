"""The costs of a workload's actors: starts, CPU used, memory kept while parked."""

from __future__ import annotations

import math
import statistics
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Literal

import psutil

from artos.clock import Clock
from artos.protocol.usage import Usage

Start = Literal["cold", "fork", "clone", "restore", "prewarm", "moved", "state", "thaw", "unpark"]
"""How an actor came to run; ``prewarm``: restored before its invocation came."""

_KEPT = 4096  # durations remembered for each kind of start
_WINDOW = 5  # parked intervals that tell whether an actor burns CPU
_BURNING = 0.1  # of one CPU
_NOTICED = 0.05  # CPU seconds; less is noise, as the kernel counts in steps of 0.01


@dataclass(frozen=True)
class StartStats:
    """Starts of one kind: their number, and median and 95th percentile of the latest (seconds)."""

    count: int
    median_s: float
    p95_s: float


@dataclass
class _Starts:
    count: int = 0
    latest: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def stats(self) -> StartStats:
        ordered = sorted(self.latest)
        ninety_fifth = ordered[math.ceil(0.95 * len(ordered)) - 1]
        return StartStats(self.count, statistics.median(ordered), ninety_fifth)


@dataclass(frozen=True)
class _Parked:
    since: float
    mb: float
    cpu: float | None  # CPU seconds used until then; None if the process cannot run while parked


class Accounts:
    """The costs of one workload. Seconds are the clock's, CPU seconds the kernel's; MB: 10^6 bytes.

    An actor's CPU seconds are those of all its processes, one after the other, and of the children
    they have waited for. They are read from the kernel while the process exists: call ``unwatch``
    before a process is reaped, or the CPU it used since the last reading is lost.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._starts: dict[Start, _Starts] = {}
        self._past: dict[int, float] = {}
        self._live: dict[int, _Reading] = {}
        self._parked: dict[int, _Parked] = {}
        self._mb_seconds = self._waited = 0.0
        self._idle: dict[int, deque[tuple[float, float]]] = {}

    # -- starts --------------------------------------------------------------------------------

    def started(self, kind: Start, seconds: float) -> None:
        """Note that an actor runs, ``seconds`` after its start was requested."""
        starts = self._starts.setdefault(kind, _Starts())
        starts.count += 1
        starts.latest.append(seconds)

    def starts(self) -> dict[Start, StartStats]:
        """Statistics for each kind of start that happened."""
        return {kind: starts.stats() for kind, starts in self._starts.items()}

    def waited(self, seconds: float) -> None:
        """Add the seconds for which an invocation with a slot waited for the actor's process."""
        self._waited += seconds

    # -- CPU -----------------------------------------------------------------------------------

    def usage(self, held_seconds: float, waited_seconds: float) -> Usage:
        """All costs as one record, given for how long CPU slots were held and waited for."""
        return Usage(
            cpu_seconds_held=held_seconds,
            cpu_seconds_used=self.all_used_seconds(),
            parked_mb_seconds=self.parked_mb_seconds(),
            waits={"slot": waited_seconds, "process": self._waited},
            starts={kind: asdict(stats) for kind, stats in self.starts().items()},
        )

    def watch(self, actor: int, pid: int) -> None:
        """Read the actor's CPU time from this process; what it has used already counts as well."""
        self.unwatch(actor)
        self._live[actor] = _Reading(pid)

    def unwatch(self, actor: int) -> None:
        """Keep what the actor's process has used, as it ends. No error if it has none."""
        if reading := self._live.pop(actor, None):
            self._past[actor] = self._past.get(actor, 0.0) + reading.seconds()

    def used_seconds(self, actor: int) -> float:
        """CPU seconds an actor has used so far."""
        reading = self._live.get(actor)
        return self._past.get(actor, 0.0) + (reading.seconds() if reading else 0.0)

    def all_used_seconds(self) -> float:
        """CPU seconds all actors have used so far."""
        return sum(self.used_seconds(actor) for actor in self._past.keys() | self._live.keys())

    # -- parking -------------------------------------------------------------------------------

    def parked(self, actor: int, mb: float, *, runs: bool = False) -> None:
        """Note that an actor waits from now on and keeps ``mb`` MB, in memory or as an image.

        ``runs``: its process is neither frozen nor gone, so it may use CPU while it waits.
        """
        self.unparked(actor)
        cpu = self.used_seconds(actor) if runs else None
        self._parked[actor] = _Parked(self._clock.now(), mb, cpu)

    def unparked(self, actor: int) -> None:
        """Note that an actor waits no longer. No error if it did not wait."""
        if parked := self._parked.pop(actor, None):
            seconds = self._clock.now() - parked.since
            self._mb_seconds += parked.mb * seconds
            if parked.cpu is not None:
                intervals = self._idle.setdefault(actor, deque(maxlen=_WINDOW))
                intervals.append((self.used_seconds(actor) - parked.cpu, seconds))

    def parked_mb_seconds(self) -> float:
        """MB·s kept by parked actors so far."""
        now = self._clock.now()
        open_ones = sum(each.mb * (now - each.since) for each in self._parked.values())
        return self._mb_seconds + open_ones

    def burns(self, actor: int) -> bool:
        """Whether the actor has lately used CPU while it was parked with nothing to do."""
        intervals = self._idle.get(actor, ())
        cpu = sum(used for used, _ in intervals)
        return cpu >= max(_NOTICED, _BURNING * sum(seconds for _, seconds in intervals))


class _Reading:
    """CPU seconds of a process; the last value read if the process is gone."""

    def __init__(self, pid: int) -> None:
        self._last = 0.0
        try:
            self._process: psutil.Process | None = psutil.Process(pid)
        except psutil.NoSuchProcess:
            self._process = None

    def seconds(self) -> float:
        if self._process:
            try:
                self._last = sum(self._process.cpu_times()[:4])  # including its children's
            except psutil.NoSuchProcess:
                self._process = None
        return self._last
