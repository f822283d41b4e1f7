"""A process's membership in the pool of its machine: joining, seats, waiting, leaving."""

from __future__ import annotations

import logging
import os
import sys
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from artos.clock import Clock, Deadline, SystemClock
from artos.pool import records
from artos.pool.choice import NANO
from artos.pool.effects import Effects, Revoked
from artos.pool.entry import (
    account_of,
    add_member,
    define,
    least_sought,
    party_faults,
    seat_faults,
)
from artos.pool.faults import NotInPool, PoolDamaged, PoolFull, PoolRefused, PoolStuck
from artos.pool.folder import pool_folder
from artos.pool.memory import lacking_mb
from artos.pool.records import ASKS, FREE, NONE, SeatRecord, resource_of
from artos.pool.resources import Party, Resource
from artos.pool.scheduler import LeaseScheduler
from artos.pool.seat import Lease, Seat
from artos.pool.table import Table
from artos.pool.view import HeldUsage, held_usage
from artos.pool.watch import WakeUp, WakeUps, Watch
from artos.system.closing import Closing

_log = logging.getLogger(__name__)
_NEVER = 1 << 62
_POLL_SECONDS = 0.5
"""How often to look whether members that cannot be watched have ended."""

_joined: weakref.WeakSet[Pool] = weakref.WeakSet()


class Pool(Closing):
    """One process's membership in the pool of its machine. For one thread: others join themselves.

    All that it holds is given back when it leaves, and when its process ends, however it ends. A
    child made by fork is not a member, whatever its parent was doing.
    """

    def __init__(
        self,
        table: Table,
        member: int,
        watch: Watch,
        clock: Clock,
        on_revoked: Callable[[Revoked], None],
    ) -> None:
        """Use ``join``."""
        self.table, self.member, self.inside = table, member, True
        self._watch, self._clock, self._on_revoked = watch, clock, on_revoked
        self._joined_at = table.members[member].joined
        self._joins_watched, self._wake_ups = -1, WakeUps(table.folder)
        self._seats: dict[int, Seat] = {}
        _joined.add(self)

    @classmethod
    def join(
        cls,
        resources: Iterable[Resource] = (),
        *,
        otherwise: Iterable[Resource] = (),
        folder: Path | None = None,
        name: str = "",
        clock: Clock | None = None,
        on_revoked: Callable[[Revoked], None] = lambda _: None,
    ) -> Pool:
        """Join the pool of this machine and user, which is made if need be.

        ``resources`` are added to it; the first member says how many may share one. Of
        ``otherwise`` those are added of whose kind the pool has nothing. ``on_revoked`` is called
        with each lease that this member revoked as it was overdue: a supervisor may end its
        process, for the table alone cannot take a device from a process.

        Raises:
            PoolRefused: a resource is not possible, or others know it differently.
            PoolFull: there are too many members or resources.
            PoolVersion: the table is of another version of ARTOS, and in use.
            PoolDamaged: what lies there is not what a pool writes.
            PoolStuck: another process was stopped while it changed the table.
            ShmTooSmall: there is no room for the table.
            NotOurs: the folder is another user's, or holds what no pool has made.
        """
        clock, wanted = clock or SystemClock(), (tuple(resources), tuple(otherwise))
        folder = folder or pool_folder()
        while True:
            table = Table.open(folder)
            try:
                pool = cls._entered(table, wanted, name or Path(sys.argv[0]).name, clock)
            except BaseException:
                table.close()
                raise
            if pool is not None:
                pool._on_revoked = on_revoked
                return pool
            table.close()

    @classmethod
    def _entered(
        cls,
        table: Table,
        wanted: tuple[tuple[Resource, ...], tuple[Resource, ...]],
        name: str,
        clock: Clock,
    ) -> Pool | None:
        """None if the table was just closed for good."""
        now = int(clock.now() * NANO)
        with table.change():
            if table.closed:
                if users := table.users:
                    raise PoolDamaged(str(table.path), "it is closed, and used", users)
                table.remove()
                return None
            scheduler = LeaseScheduler(table, now)
            scheduler.reclaim()
            define(table, *wanted)
            member = add_member(table, name, now)
            try:
                wake_up = WakeUp(table.folder, member)
                table.count_join()
                scheduler.wake_those_that_wait()
                pool = cls(table, member, Watch(wake_up), clock, lambda _: None)
                table.commit()
            except BaseException:
                table.locks.drop(member)
                raise
        pool._carry_out(scheduler.effects)
        return pool

    def __repr__(self) -> str:
        return f"<Pool {self.table.path} {'' if self.inside else 'left'}{[*self._seats.values()]}>"

    def now(self) -> int:
        """The time of the pool's clock in ns."""
        return int(self._clock.now() * NANO)

    def check_inside(self) -> None:
        """Make sure that this process is a member.

        Raises:
            NotInPool: the pool was left, or this is a forked child of the process that joined.
        """
        if not self.inside:
            raise NotInPool(
                "the pool was left, or this process was forked from one that had joined"
            )

    # -- seats ---------------------------------------------------------------------------------

    def enter(
        self,
        workload: str,
        what: str | Collection[str] = "device",
        *,
        weight: float = 1.0,
        priority: int = 0,
        memory_mb: int = 0,
        party: Party | None = None,
    ) -> Seat:
        """A seat for a contender of a workload. ``what`` is a kind of resources, or names one.

        Given several names, it is for the one that has the fewest seats, relative to its share.
        All seats of a workload share one account; its weight is the one that was given last.

        The seats of a ``party``, which may be those of several processes, get their resources at
        the same time, once all of them have asked. Each gives its own back.

        Raises:
            PoolRefused: there is no such resource, none has enough memory, the weight is not
                positive, or it cannot be one of that party; it names everything that is wrong.
            PoolFull: there are too many seats or workloads.
        """
        self.check_inside()
        with self.changing() as scheduler:
            table = self.table
            what = what if isinstance(what, str) else least_sought(table, what)
            faults, kind, wants = seat_faults(table, workload, what, weight, memory_mb, priority)
            if party is not None:
                faults += party_faults(table, party, workload, what, priority)
            if faults:
                raise PoolRefused(faults)
            account = account_of(table, kind, workload, weight, scheduler.now)
            seat = table.seats.add(
                SeatRecord(FREE, self.member, account, kind, wants, memory_mb, 0,
                           priority, 0, 0, 0, NONE, NONE, 0, *(party or (0, 0)))
            )  # fmt: skip
            if seat is None:
                raise PoolFull("seats", records.SEATS)
        self._seats[seat] = Seat(self, seat, workload, what, memory_mb, alone=party is None)
        return self._seats[seat]

    def queue_seat(self, seat: int, length: int) -> None:
        """Have a seat wait for a lease of ``length`` ns."""
        with self.changing() as scheduler:
            scheduler.queue_seat(seat, length)
            self._set_alarm(scheduler)

    def give_back_lease(self, seat: int) -> bool:
        """End what a seat has; False if it had been revoked."""
        with self.table.damage_guard:
            next_seat = self.table.hand_overs.hand_over(seat, self.now())
            if next_seat is not None:
                member = self.table.seats.peek(next_seat).member
                if member != self.member:  # without the lock: it may just have left
                    self._wake_ups.wake(member, self.table.members.peek(member))
        with self.changing() as scheduler:  # which books a hand-over
            return next_seat is not None or scheduler.give_back_lease(seat)

    def withdraw_seat(self, seat: int) -> bool:
        """Have a seat wait no longer; True if it has been granted something, which it keeps."""
        with self.changing() as scheduler:
            waits = self.table.seats[seat].state in ASKS
            if waits:
                scheduler.give_back_lease(seat)
            return not waits

    def remove_seat(self, seat: Seat, number: int) -> None:
        """Remove a seat, and end what it has or waits for."""
        self._seats.pop(number, None)
        if self.inside:
            with self.changing() as scheduler:
                scheduler.remove_seat(number)

    def lacking_mb(self, resource: str, *, now: bool = False) -> int:
        """How much memory (MB) a resource lacks for all of its seats to hold it that may.

        What others have left there counts, too. With ``now`` only seats count that wait for nothing
        but memory. 0 if its memory is not counted.
        """
        with self.changing():
            return lacking_mb(self.table, resource, now=now)

    @property
    def resources(self) -> list[Resource]:
        """All resources of the pool."""
        with self.changing():
            there = self.table.resources.values()
            return [resource_of(each, self.table.kinds[each.kind].name) for each in there]

    def usage(self) -> list[HeldUsage]:
        """What workloads have held of this pool so far, running leases included."""
        with self.changing() as scheduler:
            return held_usage(self.table, scheduler.now)

    # -- waiting -------------------------------------------------------------------------------

    def fileno(self) -> int:
        """For event loops: readable when ``granted`` should be called; -1 once left."""
        return self._watch.fileno()

    @property
    def patience(self) -> float | None:
        """For event loops: seconds until ``granted`` should be called anyway; None: no need."""
        if not any(seat.waits for seat in self._seats.values()):
            return None
        alarm = self.table.members.peek(self.member).alarm
        left = max(0.0, (alarm - self.now()) / NANO) if 0 < alarm < _NEVER else None
        if self._watch.must_poll:
            return _POLL_SECONDS if left is None else min(left, _POLL_SECONDS)
        return left

    def granted(self) -> list[Lease]:
        """Never waits: leases that seats of this process were waiting for and now have."""
        self.check_inside()
        if self._watch.wait(0.0) or self.patience == 0.0 or self._watch.must_poll:
            self._reclaim_and_decide()
        self._watch_members()
        return [lease for seat in self._seats.values() if (lease := seat.take_lease())]

    def wait_for(self, seat: Seat, seconds: float) -> Lease | None:
        """Sleep until a seat has a lease, at most ``seconds``."""
        deadline = Deadline(seconds, self._clock)
        while True:
            self._watch_members()  # which may find that it is our turn
            if (lease := seat.take_lease()) or deadline.passed:
                return lease
            patience = self.patience
            wait = deadline.left if patience is None else min(deadline.left, patience)
            woken = self._watch.wait(wait)
            if lease := seat.take_lease():  # granted by who woke it: there is nothing to reclaim
                return lease
            if woken or self.patience == 0.0 or self._watch.must_poll:
                self._reclaim_and_decide()

    def _watch_members(self) -> None:
        """Watch the processes of all members, if some have joined since the last time."""
        while self._joins_watched != self.table.joins:
            with self.changing():
                joins = self.table.joins
                all_live = self._watch.follow(self.table.members, self.table.locks)
            if all_live:
                self._joins_watched = joins
            else:
                self._reclaim_and_decide()

    def _reclaim_and_decide(self) -> None:
        """Take what ended members had, and what overdue holders have if others wait for it."""
        with self.changing() as scheduler:
            scheduler.reclaim()
            for kind, _ in self.table.kinds.items():
                scheduler.decide(kind)
            self._set_alarm(scheduler)
        self._joins_watched = -1  # there are fewer members to watch

    def _set_alarm(self, scheduler: LeaseScheduler) -> None:
        alarm = scheduler.earliest_end(self.member) or _NEVER
        if self.table.members[self.member].alarm != alarm:
            self.table.members.edit(self.member).alarm = alarm

    @contextmanager
    def changing(self) -> Iterator[LeaseScheduler]:
        """Change the table, or read it as a whole, within a block.

        Raises:
            NotInPool: another member took this process for ended.
            PoolStuck: another process was stopped while it changed the table.
            PoolDamaged: the table holds what no pool has written.
        """
        with self.table.change():
            mine = self.member in self.table.members and self.table.members[self.member]
            if not mine or mine.joined != self._joined_at:
                self.forked()
                self.table.close()
                raise NotInPool("another process took this one for ended")
            scheduler = LeaseScheduler(self.table, self.now())
            yield scheduler
        self._carry_out(scheduler.effects)

    def _carry_out(self, effects: Effects) -> None:
        for number in effects.wake - {self.member}:
            if number in self.table.members:
                self._wake_ups.wake(number, self.table.members[number])
        for each in effects.revoked:
            self._on_revoked(each)

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Leave: all seats are freed; the last member removes the table. Twice is fine."""
        if not self.inside:
            return
        self.inside = False
        effects = Effects()
        try:
            with self.table.change():
                scheduler = LeaseScheduler(self.table, self.now())
                scheduler.remove_member(self.member)
                scheduler.reclaim()
                self._watch.close()
                if not len(self.table.members):
                    self.table.remove()
                else:
                    self.table.commit()
                self.table.locks.drop(self.member)
                effects = scheduler.effects
            self._carry_out(effects)
        except (PoolDamaged, PoolStuck) as error:  # others find that this process has left
            _log.warning("%s", error)
        finally:
            self._watch.close()
            self._wake_ups.close()
            self.table.close()

    def forked(self) -> None:
        """Close what this process, a child of the one that joined, has inherited; no more."""
        self.inside = False
        self._watch.close_descriptors()
        self._wake_ups.close()
        self.table.folder.close()


def _after_fork() -> None:
    for pool in _joined:
        pool.forked()
    _joined.clear()


os.register_at_fork(after_in_child=_after_fork)
