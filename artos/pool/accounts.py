"""What workloads have held, as virtual time: held resource-seconds divided by weight. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Account:
    """What one workload has held of one kind of resource."""

    workload: str
    weight: float = 1.0
    seconds: float = 0.0
    """Resource-seconds held until ``since``."""
    lead: float = 0.0
    """Added to the virtual time."""
    turn: int = 0
    """The number of the workload's last grant among all grants."""
    since: float = 0.0
    units: int = 0
    """Units that are held from ``since`` on."""
    waiting: int = 0
    """How many of its contenders wait."""

    @property
    def present(self) -> bool:
        """Whether it holds anything or waits for it."""
        return bool(self.units or self.waiting)

    def seconds_at(self, now: float) -> float:
        """Resource-seconds held until ``now``."""
        return self.seconds + self.units * (now - self.since)

    def virtual(self, now: float) -> float:
        """Virtual time, in seconds of a resource at weight 1; never falls."""
        # Written out, as this is most of what a decision does.
        return self.lead + (self.seconds + self.units * (now - self.since)) / self.weight

    def hold(self, more: int, now: float) -> None:
        """Hold ``more`` further units from ``now`` on (fewer, if negative)."""
        self.seconds = self.seconds_at(now)
        self.since, self.units = now, self.units + more

    def reweigh(self, weight: float, now: float) -> None:
        """Count with another weight from ``now`` on; what was held before counts as it did."""
        before = self.virtual(now)
        self.weight = weight
        self.lead += before - self.virtual(now)

    def catch_up(self, floor: float, now: float) -> None:
        """Count as if it had held as much as those at ``floor``, if it has held less."""
        self.lead += max(0.0, floor - self.virtual(now))


@dataclass(slots=True)
class Lowest:
    """Accounts by virtual time, then by how long ago their turn was, then by when they were added.

    Virtual time only grows, so the key under which an account was added is never too high: only the
    account on top has its key brought up to date.
    """

    valid: Callable[[Account], object]
    """An account for which this is no longer true is dropped when it comes to the top."""
    ahead: float = 0.0
    """Seconds of a lease that are counted before it begins, divided by weight."""
    _heap: list[tuple[float, int, int, Account]] = field(default_factory=list)
    _added: set[Account] = field(default_factory=set)
    _count: int = 0

    def add(self, account: Account, now: float) -> None:
        """Add an account; twice is fine."""
        if account not in self._added:
            self._count += 1
            self._added.add(account)
            key = (self.key(account, now), account.turn, self._count, account)
            heapq.heappush(self._heap, key)

    def key(self, account: Account, now: float) -> float:
        """What accounts are compared by."""
        return account.virtual(now) + self.ahead / account.weight

    def least(self, now: float) -> Account | None:
        """The account with the least virtual time, None if there is none."""
        heap = self._heap
        while heap:
            virtual, turn, number, account = heap[0]
            if not self.valid(account):
                heapq.heappop(heap)
                self._added.discard(account)
            elif (newest := self.key(account, now)) > virtual or account.turn > turn:
                heapq.heapreplace(heap, (newest, account.turn, number, account))
            else:
                return account
        return None
