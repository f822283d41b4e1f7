"""A contender's seat in a pool, and the lease it has: what code outside the pool works with."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from artos.buffer.doorbell import fence
from artos.pool.faults import LeasedTwice, LeaseRevoked, LeaseTimeout, PartyIncomplete
from artos.pool.memory import Shortage, shortage
from artos.pool.meter import in_use, started, stopped
from artos.pool.records import DEMAND, GRANTED, METER, SINCE, TAKEN_AWAY, UNTIL, UNWANTED
from artos.pool.view import holders, missing_of, party_of
from artos.system.closing import Closing

if TYPE_CHECKING:
    from artos.pool.pool import Pool

NANO = 1_000_000_000
_CENTURY = 100 * 365 * 86_400.0
"""A lease of this many seconds or more has no deadline."""


class Seat(Closing):
    """One contender for resources of one kind. It has one lease at a time, or waits for one.

    While no other waits, it keeps its resource between leases, and beginning or ending a lease
    touches two words of shared memory and no lock. One that is not ``alone``, but of a party, keeps
    nothing: others of the party might lose theirs meanwhile.
    """

    def __init__(
        self,
        pool: Pool,
        number: int,
        workload: str,
        what: str,
        memory_mb: int,
        *,
        alone: bool = True,
    ) -> None:
        self.workload, self.what, self.memory_mb, self.alone = workload, what, memory_mb, alone
        self._pool, self._number = pool, number
        self._words = pool.table.lease_words(number)
        self._lease: Lease | None = None
        self._waits = self._keeps = self._grew = False
        self._resource = ""
        self._length = 0.0
        self._closed = False

    def __repr__(self) -> str:
        what = "waits" if self._waits else f"holds {self._resource}" if self._lease else "idle"
        return f"<Seat {self.workload} {what}>"

    @property
    def wanted(self) -> str:
        """What it asks for, for messages."""
        return f"{self.what}{f' with {self.memory_mb} MB free' if self.memory_mb else ''}"

    @property
    def may_be_wanted(self) -> bool:
        """False if no other can have waited since this seat had its resource; reads one word."""
        return not self._keeps or self._words[DEMAND] != UNWANTED

    @property
    def remembered_mb(self) -> int:
        """What a seat of the workload needed last, even in a process that has ended; else 0."""
        with self._pool.changing():
            table = self._pool.table
            return table.accounts[table.seats[self._number].account].memory_mb

    @property
    def shortage(self) -> Shortage | None:
        """The memory that it waits for, and who has it; None if it does not wait for memory.

        The seat must be one for a resource by name.
        """
        with self._pool.changing():
            return shortage(self._pool.table, self._pool.table.seats[self._number])

    @property
    def missing(self) -> list[str]:
        """Who of its party has not asked while it has; sentences, for people."""
        if self.alone:
            return []
        with self._pool.changing():
            return missing_of(self._pool.table, self._number)

    def set_memory(self, needed_mb: int, left_mb: int = 0, *, remember: bool = True) -> None:
        """Say how much memory it needs while it holds its resource, and how much otherwise.

        It is ``remembered_mb`` of later seats of its workload, unless that is another one's to say.
        The seat must be one for a resource by name. More than before counts from the next lease.
        """
        self._grew = self._grew or needed_mb > self.memory_mb
        self.memory_mb = needed_mb
        with self._pool.changing() as scheduler:
            scheduler.set_memory(self._number, needed_mb, left_mb, remember=remember)

    @property
    def holds(self) -> str:
        """The resource that it has a lease of, or has been granted; "" if none."""
        if self._waits and in_use(self._words[METER]):
            return self._granted()
        return self._resource if self._lease else ""

    def _granted(self) -> str:
        with self._pool.table.damage_guard:
            return self._pool.table.resources.peek(self._words[GRANTED]).name

    @property
    def waits(self) -> bool:
        """Whether it has asked for a lease and not taken it yet."""
        return self._waits

    def lease(self, seconds: float = 0.0, *, wait: float = 60.0) -> Lease:
        """A lease of a resource, waiting for it at most ``wait`` seconds.

        ``seconds`` is how long others have to respect the lease while they wait (0: forever).

        Raises:
            LeaseTimeout: none came free in time.
            PartyIncomplete: others of its party did not ask in time.
            LeasedTwice: the seat has a lease, or waits for one.
            NotInPool: the pool was left.
            PoolStuck: another process was stopped while it changed the table.
        """
        return self.ask_for_lease(seconds) or self._await(wait)

    def _await(self, seconds: float) -> Lease:
        if lease := self._pool.wait_for(self, seconds):
            return lease
        with self._pool.changing():
            table = self._pool.table
            held_by = holders(table, table.seats[self._number].kind)
            party, missing = party_of(table, self._number), missing_of(table, self._number)
        if lease := self.withdraw():
            return lease
        if missing:
            raise PartyIncomplete(self.wanted, missing, seconds)
        raise LeaseTimeout(" and at the same time ".join((self.wanted, *party)), seconds, held_by)

    def ask_for_lease(self, seconds: float = 0.0) -> Lease | None:
        """A lease if there is one at once; else the seat waits: ``take_lease`` returns it later."""
        self._pool.check_inside()
        if self._lease or self._waits:
            raise LeasedTwice(self.workload, "waits for one" if self._waits else "has one")
        self._length = seconds
        if self._keeps and not self._grew and self._may_use_kept(seconds):
            self._lease = Lease(self, self._resource, self._words)
            return self._lease
        self._keeps = self._grew = False
        self._waits = True
        self._pool.queue_seat(self._number, _until(0, seconds))
        return self.take_lease()

    def take_lease(self) -> Lease | None:
        """The lease this seat was waiting for, None if it is not its turn yet."""
        if not self._waits or not in_use(self._words[METER]):
            return None
        self._waits = False
        self._resource = self._granted()
        self._lease = Lease(self, self._resource, self._words)
        return self._lease

    def withdraw(self) -> Lease | None:
        """Stop waiting; returns the lease if it came at that moment."""
        lease = self.take_lease()
        if lease is None and self._waits:
            lease = self.take_lease() if self._pool.withdraw_seat(self._number) else None
            self._waits = False
        return lease

    def renew(self, lease: Lease, seconds: float | None, wait: float) -> None:
        """Give a lease back and have another one at the same moment (``Lease.renew``)."""
        again = self.renew_or_queue(lease, seconds) or self._await(wait)
        if again is not lease:
            lease.resource, self._lease = again.resource, lease

    def renew_or_queue(self, lease: Lease, seconds: float | None) -> Lease | None:
        """Renew a lease; or give it back and queue, if others wait (``Lease.renew_or_queue``)."""
        lease.check()
        length = self._length if seconds is None else seconds
        keeps = self.alone and self._words[DEMAND] == UNWANTED and not self._grew
        if self._lease is lease and keeps:
            self._words[UNTIL] = _until(self._pool.now(), length)
            return lease
        if self._lease is lease:
            self._lease, self._keeps = None, False  # asking gives back what is held
        return self.ask_for_lease(length)

    def _may_use_kept(self, seconds: float) -> bool:
        """Begin to use what this seat has kept; False if it was taken away, or another waits."""
        words, now = self._words, self._pool.now()
        if words[DEMAND] != UNWANTED:
            return False
        words[UNTIL], words[SINCE] = _until(now, seconds), now
        words[METER] = started(words[METER], now)
        # A process that wants it marks it, fences, and looks at the meter: one sees the other.
        fence()
        if words[DEMAND] == UNWANTED:
            return True
        words[METER] = stopped(words[METER], now)
        return False

    def end(self, lease: Lease) -> None:
        """Give a lease back; does nothing if it is not the one this seat has."""
        if self._lease is not lease:
            return
        self._lease = None
        if not self._pool.inside:
            return
        words = self._words
        words[METER] = stopped(words[METER], self._pool.now())
        if words[DEMAND] == UNWANTED:  # else it is wanted anyway
            fence()
        self._keeps = self.alone and words[DEMAND] == UNWANTED
        if not self._keeps and not self._pool.give_back_lease(self._number):
            raise LeaseRevoked(self.workload, lease.resource, self._length)

    def close(self) -> None:
        """Leave: give back what it has, or stop waiting; twice is fine."""
        if not self._closed:
            self._closed, self._lease, self._waits, self._keeps = True, None, False, False
            self._pool.remove_seat(self, self._number)


class Lease(Closing):
    """The right to use a resource, until it is given back at the end of the ``with`` block."""

    def __init__(self, seat: Seat, resource: str, words: memoryview) -> None:
        self.resource, self.seat, self._words = resource, seat, words

    def __repr__(self) -> str:
        return f"<Lease of {self.resource}{' wanted' if self.wanted else ''}>"

    @property
    def wanted(self) -> bool:
        """Whether another waits that could use this resource; one read of shared memory."""
        return self._words[DEMAND] != UNWANTED

    def check(self) -> None:
        """Make sure that the lease was not revoked; one read of shared memory.

        Raises:
            LeaseRevoked: it went on beyond its deadline while others waited.
        """
        if self._words[DEMAND] == TAKEN_AWAY and self.seat._lease is self:
            raise LeaseRevoked(self.seat.workload, self.resource, self.seat._length)

    def renew(self, seconds: float | None = None, *, wait: float = 60.0) -> None:
        """Give it back and ask for another one at the same moment; it may be of another resource.

        So others get their turns by weight and priority, and nothing happens while no one waits.
        Use it between steps: weights can only act between seats that wait at the same time. All of
        a party renew at the same step: each gives back and waits for the others to ask.

        Raises:
            LeaseRevoked: it went on beyond its deadline while others waited.
            LeaseTimeout: the others did not give the resource back in time; the lease is over.
            PartyIncomplete: others of its party did not ask in time; the lease is over.
        """
        self.seat.renew(self, seconds, wait)

    def renew_or_queue(self, seconds: float | None = None) -> Lease | None:
        """Like ``renew``, but never waits: None if the lease is over and its seat queues."""
        return self.seat.renew_or_queue(self, seconds)

    def close(self) -> None:
        """Give it back; twice is fine.

        Raises:
            LeaseRevoked: it had been revoked before.
        """
        self.seat.end(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except LeaseRevoked:
            if error is None:  # else what went wrong inside is more to the point
                raise


def _until(now: int, seconds: float) -> int:
    return now + int(seconds * NANO) if 0 < seconds < _CENTURY else 0
