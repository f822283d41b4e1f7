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
from artos.pool.clerk import Clerk
from artos.pool.entry import account_of, add_member, define, least_sought, seat_faults
from artos.pool.faults import NotInPool, PoolDamaged, PoolFull, PoolRefused, PoolStuck
from artos.pool.folder import pool_folder
from artos.pool.memory import Shortage, lacking_mb, shortage
from artos.pool.news import News, Revoked
from artos.pool.records import FREE, NONE, WAITING, SeatRecord, resource_of
from artos.pool.resources import Resource
from artos.pool.seat import Lease, Seat
from artos.pool.table import Table
from artos.pool.view import HeldUsage, held_usage, holders
from artos.pool.watch import Bell, Bells, Watch
from artos.system.closing import Closing

_log = logging.getLogger(__name__)
_NEVER = 1 << 62
_BLIND_SECONDS = 0.5
"""How often to look for the death of members that cannot be watched."""

_joined: weakref.WeakSet[Pool] = weakref.WeakSet()


class Pool(Closing):
    """One process's way into the pool of its machine. For one thread: others join for themselves.

    All it holds comes back when it is left, and when its process ends, however that ends. A child
    made by fork is not in the pool, whatever its parent was doing.
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
        self._followed, self._bells = -1, Bells(table.folder)
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
        ``otherwise`` those are added of whose kind there is nothing. ``on_revoked``
        is told of leases that this member took from others that were late: a supervisor may end
        their processes, for the table alone cannot take a device from a process.

        Raises:
            PoolRefused: a resource is not possible, or others know it differently.
            PoolFull: too many members or resources.
            PoolVersion, PoolDamaged, PoolStuck, ShmTooSmall, NotOurs: see there.
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
            clerk = Clerk(table, now)
            clerk.bury()
            define(table, *wanted)
            member = add_member(table, name, now)
            try:
                bell = Bell(table.folder, member)
                table.count_join()
                clerk.wake_those_that_wait()
                pool = cls(table, member, Watch(bell), clock, lambda _: None)
                table.commit()
            except BaseException:
                table.locks.drop(member)
                raise
        pool._tell(clerk.news)
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
    ) -> Seat:
        """A seat for a contender of a workload. ``what`` is a kind of resources, or one's name.

        Given several names it is for that one of these for which there are the fewest seats.

        All seats of a workload share one account; its weight is the one that was given last.

        Raises:
            PoolRefused: no such resource, not enough memory on any, or a weight that is not
                positive: all that is wrong at once.
            PoolFull: too many seats or workloads.
        """
        self.check_inside()
        with self._changing() as clerk:
            table = self.table
            what = what if isinstance(what, str) else least_sought(table, what)
            faults, kind, wants = seat_faults(table, workload, what, weight, memory_mb, priority)
            if faults:
                raise PoolRefused(faults)
            account = account_of(table, kind, workload, weight, clerk.now)
            seat = table.seats.add(
                SeatRecord(FREE, self.member, account, kind, wants, memory_mb, 0,
                           priority, 0, 0, 0, NONE, NONE, 0)
            )  # fmt: skip
            if seat is None:
                raise PoolFull("seats", records.SEATS)
        self._seats[seat] = Seat(self, seat, workload, what, memory_mb)
        return self._seats[seat]

    def ask(self, seat: int, length: int) -> None:
        """Have a seat wait for a lease of ``length`` ns."""
        with self._changing() as clerk:
            clerk.ask(seat, length)
            self._set_alarm(clerk)

    def give_back(self, seat: int) -> bool:
        """End what a seat has; False if it had been taken away."""
        with self.table.sound:
            heir = self.table.hand_overs.hand_over(seat, self.now())
            if heir is not None:
                self._wake(self.table.seats.peek(heir).member)
        if heir is not None:
            with self._changing():
                return True
        with self._changing() as clerk:
            return clerk.give_back(seat)

    def withdraw(self, seat: int) -> bool:
        """Have a seat wait no longer; True if it has something by now, which it keeps."""
        with self._changing() as clerk:
            waits = self.table.seats[seat].state == WAITING
            if waits:
                clerk.give_back(seat)
            return not waits

    def leave_seat(self, seat: Seat, number: int) -> None:
        """Free a seat."""
        self._seats.pop(number, None)
        if self.inside:
            with self._changing() as clerk:
                clerk.free(number)

    def resource_of(self, seat: int) -> str:
        """The name of what a seat was granted."""
        with self.table.sound:
            return self.table.resources.peek(self.table.live(seat)[records.GRANTED]).name

    def holders(self, seat: int) -> list[str]:
        """Who has what this seat waits for, in words."""
        with self._changing():
            return holders(self.table, self.table.seats[seat].kind)

    def set_memory(self, seat: int, needed: int, left: int) -> None:
        """See ``Seat.set_memory``."""
        with self._changing() as clerk:
            clerk.set_memory(seat, needed, left)

    def remembered_mb(self, seat: int) -> int:
        """See ``Seat.remembered_mb``."""
        with self._changing():
            return self.table.accounts[self.table.seats[seat].account].memory_mb

    def lacking_mb(self, resource: str, *, now: bool = False) -> int:
        """What memory (MB) others lack of a resource; 0 if its memory is not counted.

        That is, for any of its seats to hold it beside what the others have left there; ``now``:
        for those that wait and that nobody else keeps from it.
        """
        with self._changing():
            return lacking_mb(self.table, resource, now=now)

    def shortage(self, seat: int) -> Shortage | None:
        """See ``Seat.shortage``."""
        with self._changing():
            return shortage(self.table, self.table.seats[seat])

    @property
    def resources(self) -> list[Resource]:
        """What there is."""
        with self._changing():
            there = self.table.resources.values()
            return [resource_of(each, self.table.kinds[each.kind].name) for each in there]

    def usage(self) -> list[HeldUsage]:
        """What workloads have held of this pool so far, running leases included."""
        with self._changing() as clerk:
            return held_usage(self.table, clerk.now)

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
        if self._watch.blind:
            return _BLIND_SECONDS if left is None else min(left, _BLIND_SECONDS)
        return left

    def granted(self) -> list[Lease]:
        """Never waits: leases that seats of this process were waiting for and now have."""
        self.check_inside()
        if self._watch.wait(0.0) or self.patience == 0.0 or self._watch.blind:
            self._look()
        self._follow()
        return [lease for seat in self._seats.values() if (lease := seat.take())]

    def wait_for(self, seat: Seat, seconds: float) -> Lease | None:
        """Sleep until a seat has a lease, at most ``seconds``."""
        deadline = Deadline(seconds, self._clock)
        while True:
            self._follow()  # which may find that it is our turn
            if (lease := seat.take()) or deadline.passed:
                return lease
            patience = self.patience
            wait = deadline.left if patience is None else min(deadline.left, patience)
            woken = self._watch.wait(wait)
            if lease := seat.take():  # granted by who woke it: there is nothing to look for
                return lease
            if woken or self.patience == 0.0 or self._watch.blind:
                self._look()

    def _follow(self) -> None:
        """Watch the processes of all members, if there are others than before."""
        while self._followed != self.table.joins:
            with self._changing():
                joins = self.table.joins
                all_live = self._watch.follow(self.table.members, self.table.locks)
            if all_live:
                self._followed = joins
            else:
                self._look()

    def _look(self) -> None:
        """Take from the dead and the late, and decide anew."""
        with self._changing() as clerk:
            clerk.bury()
            for kind, _ in self.table.kinds.items():
                clerk.decide(kind)
            self._set_alarm(clerk)
        self._followed = -1  # there are fewer members to watch

    def _set_alarm(self, clerk: Clerk) -> None:
        alarm = clerk.earliest_end(self.member) or _NEVER
        if self.table.members[self.member].alarm != alarm:
            self.table.members.edit(self.member).alarm = alarm

    @contextmanager
    def _changing(self) -> Iterator[Clerk]:
        with self.table.change():
            mine = self.member in self.table.members and self.table.members[self.member]
            if not mine or mine.joined != self._joined_at:
                self._abandon()
                raise NotInPool("another process took this one for dead")
            clerk = Clerk(self.table, self.now())
            yield clerk
        self._tell(clerk.news)

    def _wake(self, member: int) -> None:
        """Wake a member without the lock; it may just have left."""
        if member != self.member:
            self._bells.ring(member, self.table.members.peek(member))

    def _tell(self, news: News) -> None:
        for number in news.wake - {self.member}:
            if number in self.table.members:
                self._bells.ring(number, self.table.members[number])
        for each in news.revoked:
            self._on_revoked(each)

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Leave: all seats are freed; the last member removes the table. Twice is fine."""
        if not self.inside:
            return
        self.inside = False
        news = News()
        try:
            with self.table.change():
                clerk = Clerk(self.table, self.now())
                clerk.leave(self.member)
                clerk.bury()
                self._watch.close()
                if not len(self.table.members):
                    self.table.remove()
                else:
                    self.table.commit()
                self.table.locks.drop(self.member)
                news = clerk.news
            self._tell(news)
        except (PoolDamaged, PoolStuck) as error:  # others find that this process has left
            _log.warning("%s", error)
        finally:
            self._watch.close()
            self._bells.close()
            self.table.close()

    def _abandon(self) -> None:
        self.forked()
        self.table.close()

    def forked(self) -> None:
        """This is a child of the process that joined: nothing here is the child's."""
        self.inside = False
        self._watch.let_go()
        self._bells.close()
        self.table.folder.close()


def _after_fork() -> None:
    for pool in _joined:
        pool.forked()
    _joined.clear()


os.register_at_fork(after_in_child=_after_fork)
