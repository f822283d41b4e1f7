"""The resources of one place on a simulated clock, queued for by the rule of the pool."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from artos.clock import Clock
from artos.pool.accounts import Account
from artos.pool.fair_queue import FairQueue
from artos.pool.resources import Resource
from artos.specs.members import Member


@dataclass(slots=True)
class Waits:
    """How often something was waited for, or had at once, and for how many seconds."""

    count: int = 0
    seconds: float = 0.0
    longest: float = 0.0

    def add(self, seconds: float) -> None:
        """One more wait."""
        self.count += 1
        self.seconds += seconds
        self.longest = max(self.longest, seconds)

    def merge(self, other: Waits) -> None:
        """Add all of another."""
        self.count += other.count
        self.seconds += other.seconds
        self.longest = max(self.longest, other.longest)

    def facts(self) -> dict[str, float]:
        """``count``, and ``mean`` and ``longest`` in seconds."""
        mean = self.seconds / self.count if self.count else 0.0
        return {"count": self.count, "mean": round(mean, 6), "longest": round(self.longest, 6)}


@dataclass(slots=True)
class Spent:
    """What one run has held of one kind of resource, and how long it waited for it."""

    held_seconds: float = 0.0
    waits: Waits = field(default_factory=Waits)


@dataclass(frozen=True, slots=True, eq=False)
class Claimant:
    """A run that takes part in the queue of one place."""

    workload: str
    weight: float
    priority: int
    spent: Spent


@dataclass(slots=True, eq=False)
class Turn:
    """One lease that is waited for or held; ``go`` is called when it begins."""

    claimant: Claimant
    member: Member
    go: Callable[[Turn], None]
    since: float = 0.0


class Leases:
    """The slots of a node, or the devices of the pool.

    ``stir`` is called when somebody may get something; ``grant`` is to be called after that.
    """

    def __init__(
        self, names: Iterable[str], kind: str, clock: Clock, stir: Callable[[Leases], None]
    ) -> None:
        resources = [Resource(name, kind) for name in names]
        self._queue: FairQueue[Turn] = FairQueue(resources)
        self._clock, self._stir = clock, stir
        self._last: dict[tuple[str, Member], str] = {}

    def request(self, turn: Turn) -> None:
        """Queue for a lease."""
        who, now = turn.claimant, self._clock.now()
        if who.workload not in self._queue.accounts:
            self._queue.accounts[who.workload] = Account(who.workload, who.weight, since=now)
        turn.since = now
        last = self._last.get((who.workload, turn.member), "")
        self._queue.request(turn, who.workload, now, priority=who.priority, last=last)
        self._stir(self)

    def release(self, turn: Turn) -> None:
        """The lease ends."""
        now = self._clock.now()
        self._queue.release(turn, now)
        turn.claimant.spent.held_seconds += now - turn.since
        self._stir(self)

    def grant(self) -> None:
        """Begin the leases that can begin."""
        now = self._clock.now()
        for turn, resource in self._queue.grants(now):
            turn.claimant.spent.waits.add(now - turn.since)
            turn.since = now
            self._last[turn.claimant.workload, turn.member] = resource
            turn.go(turn)

    def __repr__(self) -> str:
        return f"<Leases {self._queue!r}>"


class Gate:
    """The turns of one run on one node: no more at once than its quotas leave it."""

    def __init__(self, leases: Leases, clock: Clock, waits: Waits) -> None:
        self._leases, self._clock, self._waits = leases, clock, waits
        self._most, self._inside = 1, 0
        self._outside: deque[Turn] = deque()

    def limit(self, most: int) -> None:
        """From now on, so many may be inside; those that are stay."""
        self._most = most
        self._let_in()

    def request(self, turn: Turn) -> None:
        """Queue for a lease once there is room inside."""
        turn.since = self._clock.now()
        self._outside.append(turn)
        self._let_in()

    def release(self, turn: Turn) -> None:
        """The lease ends."""
        self._leases.release(turn)
        self._inside -= 1
        self._let_in()

    def _let_in(self) -> None:
        while self._outside and self._inside < self._most:
            turn = self._outside.popleft()
            self._inside += 1
            self._waits.add(self._clock.now() - turn.since)
            self._leases.request(turn)

    def __repr__(self) -> str:
        return f"<Gate {self._inside} of {self._most}, {len(self._outside)} outside>"
