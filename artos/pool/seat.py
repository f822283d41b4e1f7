"""A contender's seat in a pool, and the lease it has: what user-facing code holds in its hands."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from artos.buffer.doorbell import fence
from artos.pool.faults import LeasedTwice, LeaseRevoked, LeaseTimeout
from artos.pool.meter import in_use, started, stopped
from artos.pool.records import DOOR, METER, OPEN, REVOKED_DOOR, SINCE, UNTIL
from artos.system.closing import Closing

if TYPE_CHECKING:
    from artos.pool.memory import Shortage
    from artos.pool.pool import Pool

NANO = 1_000_000_000
_CENTURY = 100 * 365 * 86_400.0
"""Seconds; a lease as long as that has no deadline."""


class Seat(Closing):
    """One contender for resources of one kind. It has one lease at a time, or waits for one.

    While nobody else waits, it keeps its resource between leases, and beginning and ending a
    lease touches two words of shared memory and no lock.
    """

    def __init__(self, pool: Pool, number: int, workload: str, what: str, memory_mb: int) -> None:
        self.workload, self.what, self.memory_mb = workload, what, memory_mb
        self._pool, self._number = pool, number
        self._live = pool.table.live(number)
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
        """What it asks for, in words."""
        return f"{self.what}{f' with {self.memory_mb} MB free' if self.memory_mb else ''}"

    @property
    def shut_out(self) -> bool:
        """False if nobody can have waited since this seat had its resource; reads one word."""
        return not self._keeps or self._live[DOOR] != OPEN

    @property
    def remembered_mb(self) -> int:
        """What a seat of the workload needed last, perhaps of a process that has ended; 0: none."""
        return self._pool.remembered_mb(self._number)

    @property
    def shortage(self) -> Shortage | None:
        """What memory it waits for, and who has it; None if it waits for its turn, or for nothing.

        The seat must be one for a resource by name.
        """
        return self._pool.shortage(self._number)

    def set_memory(self, needed_mb: int, left_mb: int = 0) -> None:
        """Say what memory it needs while it holds its resource, and what it has there otherwise.

        The seat must be one for a resource by name. More than before counts from the next lease.
        """
        self._grew = self._grew or needed_mb > self.memory_mb
        self.memory_mb = needed_mb
        self._pool.set_memory(self._number, needed_mb, left_mb)

    @property
    def holds(self) -> str:
        """The resource it has a lease of, or has been granted by now; "" if none."""
        if self._waits and in_use(self._live[METER]):
            return self._pool.resource_of(self._number)
        return self._resource if self._lease else ""

    @property
    def waits(self) -> bool:
        """Whether it asked for a lease that was not taken yet."""
        return self._waits

    def lease(self, seconds: float = 0.0, *, wait: float = 60.0) -> Lease:
        """Have a resource, waiting for it at most ``wait`` seconds.

        ``seconds`` is how long others have to respect the lease while they wait (0: for ever).

        Raises:
            LeaseTimeout: none came free in time.
            LeasedTwice: the seat has a lease, or waits for one.
            NotInPool: the pool was left.
            PoolStuck: another process was stopped while it changed the table.
        """
        return self.ask(seconds) or self._await(wait)

    def _await(self, seconds: float) -> Lease:
        if lease := self._pool.wait_for(self, seconds):
            return lease
        holders = self._pool.holders(self._number)
        if lease := self.withdraw():
            return lease
        raise LeaseTimeout(self.wanted, seconds, holders)

    def ask(self, seconds: float = 0.0) -> Lease | None:
        """A lease if there is one at once; else the seat waits, and ``take`` returns it later."""
        self._pool.check_inside()
        if self._lease or self._waits:
            raise LeasedTwice(self.workload, "waits for one" if self._waits else "has one")
        self._length = seconds
        if self._keeps and not self._grew and self._begin_at_once(seconds):
            return self._begun()
        self._keeps = self._grew = False
        self._waits = True
        self._pool.ask(self._number, _until(0, seconds))
        return self.take()

    def take(self) -> Lease | None:
        """The lease this seat was waiting for, None if it is not its turn yet."""
        if not self._waits or not in_use(self._live[METER]):
            return None
        self._waits = False
        self._resource = self._pool.resource_of(self._number)
        return self._begun()

    def withdraw(self) -> Lease | None:
        """Stop waiting; returns the lease if it came just then."""
        lease = self.take()
        if lease is None and self._waits:
            lease = self.take() if self._pool.withdraw(self._number) else None
            self._waits = False
        return lease

    def renew(self, lease: Lease, seconds: float | None, wait: float) -> None:
        """See ``Lease.renew``."""
        again = self.offer(lease, seconds) or self._await(wait)
        if again is not lease:
            lease.resource, self._lease = again.resource, lease

    def offer(self, lease: Lease, seconds: float | None) -> Lease | None:
        """See ``Lease.offer``."""
        lease.check()
        length = self._length if seconds is None else seconds
        if self._lease is lease and self._live[DOOR] == OPEN and not self._grew:
            self._live[UNTIL] = _until(self._pool.now(), length)
            return lease
        if self._lease is lease:
            self._lease, self._keeps = None, False  # asking gives back what is held
        return self.ask(length)

    def _begin_at_once(self, seconds: float) -> bool:
        """Use again what this seat has kept; False if it was taken away, or somebody waits."""
        live, now = self._live, self._pool.now()
        if live[DOOR] != OPEN:
            return False
        live[UNTIL], live[SINCE] = _until(now, seconds), now
        live[METER] = started(live[METER], now)
        # Who wants it shuts the door first and looks at the meter then: one of us sees the other.
        fence()
        if live[DOOR] == OPEN:
            return True
        live[METER] = stopped(live[METER], now)
        return False

    def _begun(self) -> Lease:
        self._lease = Lease(self, self._resource, self._live)
        return self._lease

    def end(self, lease: Lease) -> None:
        """Give a lease back; does nothing if it is not the one this seat has."""
        if self._lease is not lease:
            return
        self._lease = None
        if not self._pool.inside:
            return
        live = self._live
        live[METER] = stopped(live[METER], self._pool.now())
        if live[DOOR] == OPEN:  # else it is wanted anyway
            fence()
        self._keeps = live[DOOR] == OPEN
        if not self._keeps and not self._pool.give_back(self._number):
            raise LeaseRevoked(self.workload, lease.resource, self._length)

    def close(self) -> None:
        """Leave: give back what it has, or stop waiting; twice is fine."""
        if not self._closed:
            self._closed, self._lease, self._waits, self._keeps = True, None, False, False
            self._pool.leave_seat(self, self._number)


class Lease(Closing):
    """The right to use a resource, until it is given back at the end of the ``with`` block."""

    def __init__(self, seat: Seat, resource: str, live: memoryview) -> None:
        self.resource, self.seat, self._live = resource, seat, live

    def __repr__(self) -> str:
        return f"<Lease of {self.resource}{' wanted' if self.wanted else ''}>"

    @property
    def wanted(self) -> bool:
        """Whether anyone waits who could use this resource; one read of shared memory."""
        return self._live[DOOR] != OPEN

    def check(self) -> None:
        """Make sure that the lease is still there; cheap.

        Raises:
            LeaseRevoked: it went on beyond its deadline while others waited.
        """
        if self._live[DOOR] == REVOKED_DOOR and self.seat._lease is self:
            raise LeaseRevoked(self.seat.workload, self.resource, self.seat._length)

    def renew(self, seconds: float | None = None, *, wait: float = 60.0) -> None:
        """Give it back and ask for another one at the same moment; it may be of another resource.

        So others get their turns by weight and priority, and nothing happens while nobody waits.
        Use it between steps: weights can only act between those that wait at the same time.

        Raises:
            LeaseRevoked: see ``check``.
            LeaseTimeout: the others did not give the resource back in time; the lease is over.
        """
        self.seat.renew(self, seconds, wait)

    def offer(self, seconds: float | None = None) -> Lease | None:
        """Like ``renew``, but never waits: None if it is over, and the seat waits (``take``)."""
        return self.seat.offer(self, seconds)

    def close(self) -> None:
        """Give it back; twice is fine.

        Raises:
            LeaseRevoked: it had been taken away.
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
