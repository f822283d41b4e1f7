"""The memory of a leased device: what a learner needs of it, is refused, and leaves to others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artos.pool.faults import DeviceFull, DeviceTooSmall, NoMemoryInTime
from artos.pool.pool import Pool
from artos.pool.seat import NANO, Lease, Seat
from artos.specs.levels import Level, level

if TYPE_CHECKING:
    from artos.learners.residency import Residency

_MB = 1 << 20
_ROOM = 1.25
"""How much memory a learner may take, in terms of the most that it has taken so far."""
_AGAIN = 2
"""How many times as much it asks for, once, if an update finds no room."""


class LeasedMemory:
    """Says in the pool's table what a learner needs of its device and what it has left there.

    Nobody knows what it needs before its first update is over, unless a process before this one
    has told the pool. From then on that is the most it has taken so far and a quarter more. It
    never meets that limit while it grows by less than a quarter from one update to the next.
    """

    def __init__(self, pool: Pool, seat: Seat, residency: Residency, total_mb: int) -> None:
        self._pool, self._seat, self._residency = pool, seat, residency
        self._total_mb, self._needs_mb, self._left_mb = total_mb, 0, 0
        self._fresh = True
        self._context = residency.device.context_bytes  # asking the driver takes milliseconds
        if remembered := seat.remembered_mb:
            self._limit(min(total_mb, remembered))
        self._tell()  # the learner was set up there

    @property
    def out_of_memory(self) -> type[Exception]:
        """What an update raises that finds no room on the device."""
        return self._residency.device.out_of_memory

    @property
    def left(self) -> bool:
        """Whether it has left more on the device than a context."""
        return self._residency.level < Level.PARK

    def updated(self) -> None:
        """An update is over: it is known what such a one takes."""
        device = self._residency.device
        if self._fresh:  # all that an update loads is there now
            self._context = device.context_bytes
        took = self._context + int(device.peak_bytes() * _ROOM)
        needs = min(self._total_mb, -(-took // _MB))
        if self._fresh or needs > self._needs_mb:
            self._limit(needs)
        self._fresh = False

    def leave(self, lease: Lease, pause: float) -> bool:
        """Clear the device as far as others need; whether there was a reason to.

        ``pause`` is how many seconds nothing is expected to be computed.
        """
        self._tell()
        lacking = self._pool.lacking_mb(self._seat.what)
        if lacking:
            self._clear(lacking, waits=lease.wanted, pause=pause)
        return bool(lacking)

    def make_room(self) -> None:
        """Clear the device, between two updates, if somebody waits for nothing but memory."""
        if not (self.left and self._seat.may_be_wanted):
            return
        if lacking := self._pool.lacking_mb(self._seat.what, now=True):
            self._clear(lacking, waits=True)

    def ran_short(self, error: BaseException) -> DeviceFull | DeviceTooSmall:
        """The error of an update that found no room: the next process asks for more, but once."""
        peak = self._residency.device.peak_bytes()
        had = self._needs_mb or -(-(self._context + peak) // _MB)
        more = min(self._total_mb, _AGAIN * had)
        if (self._fresh and self._needs_mb) or more <= had:
            return DeviceTooSmall(self._seat.what, had, self._total_mb, str(error))
        self._seat.set_memory(more, self._left_mb)
        return DeviceFull(self._seat.what, had, more, str(error))

    def _limit(self, needs_mb: int) -> None:
        """From now on the seat says what it needs, and torch refuses it more."""
        self._needs_mb = needs_mb
        self._seat.set_memory(needs_mb, self._left_mb)
        self._residency.device.limit(max(_MB, needs_mb * _MB - self._context))

    def _clear(self, lacking_mb: int, *, waits: bool, pause: float = 0.0) -> None:
        # A level that was taken already has not freed what it was said to free.
        here = self._residency.level
        costs = {each: cost for each, cost in self._residency.costs.items() if each > here}
        self._residency.leave(level(costs, lacking_mb * _MB, waits=waits, pause=pause))
        self._tell()

    def _tell(self) -> None:
        """What is there now; a lock is taken only if that is another amount than before."""
        residency = self._residency
        taken = residency.device.taken_bytes(residency.resident_bytes)
        left = -(-(self._context + taken) // _MB)
        if left != self._left_mb:
            self._left_mb = left
            self._seat.set_memory(self._needs_mb, left)


class MemoryWait:
    """A wait for memory that others have: what is lacking, and when it is given up.

    Waits for a turn are bounded by the queue and do not count.
    """

    def __init__(self, pool: Pool, seat: Seat, seconds: float) -> None:
        self._pool, self._seat, self._seconds = pool, seat, seconds
        self._since: int | None = None

    def lacking(self) -> str:
        """What it waits for, and who has it; "" if it waits for a turn.

        Raises:
            NoMemoryInTime: it has waited too long without a break.
        """
        if (lacks := self._seat.shortage) is None:
            self._since = None
            return ""
        now = self._pool.now()
        if self._since is None:
            self._since = now
        if now - self._since >= self._seconds * NANO:
            raise NoMemoryInTime(str(lacks), lacks.held_by, self._seconds)
        return str(lacks)
