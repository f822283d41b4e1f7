"""Who gets what next: weighted fair queueing on held resource-seconds, with a bound. Pure.

The rule, for the resources of one kind:

1. Workloads are compared by virtual time: the resource-seconds that all their contenders have held,
   running leases and one second more included, divided by weight. The lowest comes first; among
   equals the one whose last turn is longest ago (weighted fair queueing, Demers et al. 1989, by
   virtual finish times, with seconds held instead of bytes sent). The one second more lets weights
   hold where workloads pause between leases and come back as equals (2) each time. Within a
   workload, contenders are served in the order in which they came.
2. A workload that comes (back) counts as if it had held as much as the present workload that has
   held least; if none is present, as much as the one that ever held most. So it shuts out no other.
3. Before virtual time is compared, contenders of higher priority come first.
4. Before priorities, every fourth turn goes to the queue (contenders of one workload that want the
   same with the same priority) that has waited longest for a turn, if longer than ``patience``. If
   no resource has room for it, a unit that it could use is kept free for it until it fits. Its turn
   is charged like any other. So neither priorities nor needs of memory starve anyone, and weights
   hold wherever they give each workload a turn within ``patience``.
5. A contender gets the resource it had last if that has room.
6. A contender may ask for several resources by name: a party. It gets all at once or none, and is
   charged for all. While it would be next by 3 and 1, but some of them are held, what it needs of
   the others is kept free for it: one unit, and its memory. So when its turn has come, it waits for
   leases that run, and for no more.
   Apart from 4 and this, nothing that somebody waits for is kept free, and never for two at a time.

From 4 follows the bound (``longest_wait``): if no lease is longer than L seconds and there are p
other queues, the first in a queue waits at most patience + 4·L·(p + 1) seconds, whatever weights
and priorities, and each one behind it that much longer than the one before it.

A turn costs O(log n) in the number of contenders and of workloads; it is linear in the number of
different wants and priorities among those that wait, which are few.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from artos.pool.accounts import Account, Lowest
from artos.pool.resources import Kept, Places, Resource, Want

Contender = TypeVar("Contender", bound=Hashable)

PATIENCE = 60.0
"""Seconds after which a queue that had no turn is overdue."""
_AHEAD = 1.0
"""Seconds of a lease that are counted before it begins.

Workloads may be ahead of their share by this much, divided by weight. The nearer it is to the
length of leases, the nearer workloads that pause between leases come to what their weight promises.
"""
OVERDUE_TURN = 4
"""Every n-th turn goes to the queue that has been overdue longest."""


def longest_wait(
    longest_lease: float, queues: int, ahead: int = 0, patience: float = PATIENCE
) -> float:
    """The most seconds a contender waits among ``queues``, with ``ahead`` before it in its own."""
    return (ahead + 1) * (patience + OVERDUE_TURN * longest_lease * queues)


class Turn(NamedTuple):
    """The resource that a contender gets (None: no turn), and ``FairQueue.fair_turns`` after it."""

    place: str | None
    fair_turns: int


def turn_of_one(
    places: Places,
    want: Want,
    last: str,
    waited: float,
    fair_turns: int,
    patience: float = PATIENCE,
) -> Turn:
    """What ``FairQueue.grants`` decides where one contender waits: rules 4 and 5 without a queue.

    It has waited ``waited`` seconds for a turn.
    """
    place, overdue, due = places.room(want, last), waited > patience, OVERDUE_TURN - 1
    if place is None:
        return Turn(None, due if overdue else fair_turns)
    return Turn(place, 0 if overdue and fair_turns >= due else min(fair_turns + 1, due))


@dataclass(slots=True)
class _Entry:
    """A contender that waits (``resource`` is empty) or holds, counted as ``units`` units."""

    account: Account
    want: Want
    last: str
    queue: _Queue[Any] | None = None
    resource: str = ""
    units: int = 1


@dataclass(slots=True, eq=False)
class _Queue(Generic[Contender]):
    """Contenders of one workload that want the same, with the same priority."""

    account: Account
    key: tuple[Want, int]
    contenders: dict[Contender, None] = field(default_factory=dict)

    @property
    def head(self) -> Contender:
        return next(iter(self.contenders))


@dataclass(slots=True)
class _Line(Generic[Contender]):
    """The queues of all workloads that want the same, with the same priority."""

    units: int
    queues: dict[Account, _Queue[Contender]] = field(default_factory=dict)
    order: Lowest = field(init=False)

    def __post_init__(self) -> None:
        self.order = Lowest(self.queues.__contains__, _AHEAD * self.units)


class FairQueue(Generic[Contender]):
    """Contenders for the resources of one kind. Times are seconds of any monotonic clock."""

    def __init__(
        self,
        resources: Iterable[Resource],
        accounts: Iterable[Account] = (),
        *,
        patience: float = PATIENCE,
        fair_turns: int = 0,
    ) -> None:
        """``fair_turns`` have passed since the last turn of a queue that was overdue."""
        self.accounts = {each.workload: each for each in accounts}
        self.places, self.patience, self.fair_turns = Places.of(resources), patience, fair_turns
        self.turns = max((each.turn for each in self.accounts.values()), default=0)
        self._entries: dict[Contender, _Entry] = {}
        self._lines: dict[tuple[Want, int], _Line[Contender]] = {}
        self._clocks: dict[_Queue[Contender], float] = {}  # last turn of those that wait, in order
        self._present = Lowest(lambda account: account.present)
        # Highest virtual time of a workload that gave back all it held.
        absent = [each for each in self.accounts.values() if not each.units]
        self._peak = max((each.virtual(each.since) for each in absent), default=0.0)

    def __repr__(self) -> str:
        waiting = sum(not entry.resource for entry in self._entries.values())
        return f"<FairQueue held={len(self._entries) - waiting} waiting={waiting}>"

    def __contains__(self, contender: Contender) -> bool:
        return contender in self._entries

    def request(
        self,
        contender: Contender,
        workload: str,
        now: float,
        *,
        want: Want | None = None,
        priority: int = 0,
        last: str = "",
    ) -> None:
        """Queue for a resource. A request of a contender that waits or holds changes nothing."""
        if contender in self._entries:
            return
        account = self.accounts.setdefault(workload, Account(workload, since=now))
        self.arrive(account, now)
        self.wait(contender, account, now, want=want or Want(), priority=priority, last=last)

    def arrive(self, account: Account, now: float) -> None:
        """Have a workload that is not present start where the others are (rule 2)."""
        if not account.present:
            least = self._present.least(now)
            account.catch_up(self._peak if least is None else least.virtual(now), now)

    def wait(
        self,
        contender: Contender,
        account: Account,
        since: float,
        *,
        want: Want,
        priority: int = 0,
        last: str = "",
    ) -> None:
        """Have a contender wait. To rebuild a state, do so in order of ``since``.

        ``since`` is when it came, or if later when its queue had its last turn.
        """
        account.waiting += 1
        line = self._lines.get(key := (want, priority))
        if line is None:
            line = self._lines[key] = _Line(1 + len(want.beside))
        queue = line.queues.get(account)
        if queue is None:
            queue = line.queues[account] = _Queue(account, key)
            self._clocks[queue] = since
            line.order.add(account, since)
            self._present.add(account, since)
        queue.contenders[contender] = None
        self._entries[contender] = _Entry(account, want, last, queue)

    def hold(
        self, contender: Contender, account: Account, now: float, *, want: Want, resource: str
    ) -> None:
        """Have a contender hold a resource from ``now`` on, as part of a rebuilt state."""
        self._entries[contender] = _Entry(account, want, resource, resource=resource)
        account.hold(1, now)
        self._present.add(account, now)
        self.places.add_holder(resource, want.memory_mb)

    def withdraw(self, contender: Contender) -> None:
        """Stop waiting. A contender that holds keeps what it has; no error if it does not wait."""
        entry = self._entries.get(contender)
        if entry is not None and not entry.resource:
            self._leave_line(contender, entry)
            del self._entries[contender]

    def release(self, contender: Contender, now: float) -> None:
        """Give back what a contender holds. No error if it holds nothing."""
        entry = self._entries.get(contender)
        if entry is not None and entry.resource:
            del self._entries[contender]
            self.places.remove_holder(entry.resource, entry.want.memory_mb)
            for each in entry.want.beside:
                self.places.remove_holder(each.name, each.memory_mb)
            entry.account.hold(-entry.units, now)
            if not entry.account.units:
                self._peak = max(self._peak, entry.account.virtual(now))

    def charge(self, contender: Contender, units: int, now: float) -> None:
        """Count ``units`` units of the resource for a contender that holds, from ``now`` on."""
        entry = self._entries[contender]
        entry.account.hold(units - entry.units, now)
        entry.units = units

    def resize(self, name: str, share: int) -> None:
        """Let ``share`` contenders hold a resource at once; those that hold it keep it."""
        self.places.resize(name, share)

    def grants(self, now: float) -> list[tuple[Contender, str]]:
        """Give what is free to those that wait; returns who got which resource, in order.

        A party has what is in ``Want.beside``, too.
        """
        granted = []
        while (choice := self._choose(now)) is not None:
            contender, resource = choice
            entry = self._entries[contender]
            queue = self._leave_line(contender, entry)
            if queue in self._clocks:
                del self._clocks[queue]
                self._clocks[queue] = now
            self.turns += 1
            entry.account.turn = self.turns
            entry.units = 1 + len(entry.want.beside)
            entry.account.hold(entry.units, now)
            entry.resource = entry.last = resource
            self.places.add_holder(resource, entry.want.memory_mb)
            for each in entry.want.beside:
                self.places.add_holder(each.name, each.memory_mb)
            granted.append(choice)
        return granted

    def _choose(self, now: float) -> tuple[Contender, str] | None:
        kept: Kept = {}
        overdue = self._overdue(now)
        if overdue is not None and self.fair_turns >= OVERDUE_TURN - 1:
            entry = self._entries[overdue]
            if place := self.places.room(entry.want, entry.last):
                self.fair_turns = 0
                return overdue, place
            kept = self.places.kept(entry.want, entry.last)
        if choice := self._fairest(now, kept):
            self.fair_turns = min(self.fair_turns + 1, OVERDUE_TURN - 1)
        elif overdue is not None and self.fair_turns < OVERDUE_TURN - 1:
            # Nothing fits, or it is kept for a party: this, or what comes free next, is for it.
            self.fair_turns = OVERDUE_TURN - 1
            return self._choose(now)
        return choice

    def _overdue(self, now: float) -> Contender | None:
        """The first in the queue that has had no turn for longest, if longer than ``patience``."""
        queue = next(iter(self._clocks), None)
        if queue is None or self._clocks[queue] + self.patience >= now:
            return None
        return queue.head

    def _fairest(self, now: float, kept: Kept) -> tuple[Contender, str] | None:
        """By priority and virtual time, the first for which there is room beside ``kept``.

        If it is a party without room, and nothing is ``kept`` yet, what it needs is.
        """
        if self.places.full:
            return None
        best: tuple[tuple[float, float, int], Contender] | None = None
        for (want, priority), line in self._lines.items():
            if best is not None and -priority > best[0][0]:
                continue
            fits = self.places.room(want, kept=kept) is not None
            if not fits and (kept or not self.places.is_held_from(want)):
                continue
            account = line.order.least(now)
            assert account is not None  # a line without contenders is removed
            key = (-priority, line.order.key(account, now), account.turn)
            if best is None or key < best[0]:
                best = key, line.queues[account].head
        if best is None:
            return None
        entry = self._entries[best[1]]
        place = self.places.room(entry.want, entry.last, kept)
        if place is None:
            return self._fairest(now, self.places.kept(entry.want))
        return best[1], place

    def _leave_line(self, contender: Contender, entry: _Entry) -> _Queue[Contender]:
        assert entry.queue is not None
        queue, entry.queue = entry.queue, None
        entry.account.waiting -= 1
        del queue.contenders[contender]
        if not queue.contenders:
            line = self._lines[queue.key]
            del line.queues[entry.account], self._clocks[queue]
            if not line.queues:
                del self._lines[queue.key]
        return queue
