"""A run's CPU slots, leased from the pool that it shares with other runs of this machine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from xxhash import xxh3_64_hexdigest

from artos.clock import Clock
from artos.errors import ArtosError
from artos.pool.fair_queue import longest_wait as bound
from artos.pool.faults import LeaseRevoked, PoolFull
from artos.pool.listener import PoolListener
from artos.pool.pool import Pool
from artos.pool.resources import Resource
from artos.pool.seat import Lease, Seat
from artos.system.faults import Seldom
from workers.host.slots import OwnSlots, Slot, Slots

_log = logging.getLogger(__name__)
TURN = 0.03
"""Seconds for which a run keeps a slot that it needs: changing hands costs about 1 ms."""
_LEASE_SECONDS = 30.0
"""How long others respect an invocation: they cannot tell a long one from a stopped run."""
_SLOTS, _LONGEST = "slots ", 16
_NOT_SHARED = "this run's CPU slots are not shared with other runs of this machine"


def longest_wait(longest: float, runs: int, ahead: int = 0) -> float:
    """The most seconds an actor waits for a slot of CPUs on which so many ``runs`` take turns.

    ``longest`` are the seconds of the longest invocation (or of all those together that an actor is
    given at once while no one waits), ``ahead`` counts the actors of its run that came before it.
    """
    # A holder may begin one more invocation just before its turn is over.
    return bound(min(TURN + longest, _LEASE_SECONDS), runs, ahead)


@dataclass(slots=True)
class _Leased:
    lease: Lease
    since: float


class LeasedSlots:
    """Slots that come and go: a run has as many as its actors need and other runs leave.

    A slot is given back as soon as no actor of the run waits for one. While another run waits, the
    slot is offered after each turn, and the pool decides who gets it. There is a seat for each slot
    that the run may have. ``ring`` is called when something came that was waited for.

    If the pool fails, the run goes on with slots of its own, and says so.
    """

    def __init__(
        self,
        pool: Pool,
        slots: Mapping[str, Slot],
        seats: Sequence[Seat],
        ring: Callable[[], None],
        clock: Clock,
    ) -> None:
        """``slots`` are by the name of the pool's resource. Use ``leased_slots``."""
        self._pool, self._slots, self._clock = pool, slots, clock
        self._most = len(seats)
        self._idle: dict[Seat, Slot | None] = dict.fromkeys(seats)
        """Seats that have no lease, and the slot that each had last."""
        self._waiting: dict[Seat, None] = {}
        self._leased: dict[Slot, _Leased] = {}
        self._came: list[Slot] = []
        self._listener = PoolListener(pool, ring)
        self._seldom = Seldom(_log)
        self._own: OwnSlots | None = None

    def __repr__(self) -> str:
        return f"<LeasedSlots {len(self._leased)} of {self._most}, waits for {len(self._waiting)}>"

    @property
    def wanted(self) -> bool:
        """Whether another run waits for a slot that this one has."""
        return any(leased.lease.wanted for leased in self._leased.values())

    def arrived(self) -> list[Slot]:
        """Slots that were waited for and came."""
        if self._waiting:
            self._guarded(self._take_grants)
        return self._taken()

    def take(self, wishes: Sequence[Slot | None]) -> list[Slot]:
        """Slots for these wishes, as many as the pool grants now; the others are waited for."""
        if self._own is None:
            self._guarded(lambda: self._want(wishes))
        came = self._taken()
        return came if self._own is None else [*came, *self._own.take(wishes[len(came) :])]

    def again(self, slot: Slot) -> Slot | None:
        """The slot itself until its turn is over; then the pool decides, if another run waits."""
        leased = self._leased.get(slot)
        if leased is None or not leased.lease.wanted or self._clock.now() - leased.since < TURN:
            return slot
        self._guarded(lambda: self._offer(slot, leased))
        return slot if self._own is not None else next(iter(self._taken()), None)

    def give_back(self, slot: Slot) -> None:
        """Give the slot back to the pool."""
        if self._own is None:
            self._guarded(lambda: self._end(slot))
        if self._own is not None:
            self._own.give_back(slot)

    def close(self) -> None:
        """Leave the pool. May be called twice."""
        self._listener.close()
        self._pool.close()

    # -- leases --------------------------------------------------------------------------------

    def _taken(self) -> list[Slot]:
        came, self._came = self._came, []
        return came

    def _take_grants(self) -> None:
        for lease in self._pool.granted():
            self._begin(lease)
        self._wait()

    def _wait(self) -> None:
        if self._waiting:
            self._listener.arm()

    def _want(self, wishes: Sequence[Slot | None]) -> None:
        """Have as many seats wait, or have something, as there are wishes."""
        for seat in [*self._waiting][len(wishes) :]:
            if lease := seat.withdraw():
                self._begin(lease)
            else:
                del self._waiting[seat]
                self._idle[seat] = None
        for wish in wishes[len(self._waiting) :][: len(self._idle)]:
            seat = min(self._idle, key=lambda idle: _distance(self._idle[idle], wish))
            del self._idle[seat]
            self._waiting[seat] = None
            if lease := seat.ask_for_lease(_LEASE_SECONDS):
                self._begin(lease)
        self._wait()

    def _begin(self, lease: Lease) -> None:
        slot = self._slots[lease.resource]
        self._waiting.pop(lease.seat, None)
        self._leased[slot] = _Leased(lease, self._clock.now())
        self._came.append(slot)

    def _offer(self, slot: Slot, leased: _Leased) -> None:
        """Offer a slot to the next run in the queue, which may be this one."""
        seat = leased.lease.seat
        try:
            again = leased.lease.renew_or_queue(_LEASE_SECONDS)
        except LeaseRevoked:
            self._end(slot)
            return
        del self._leased[slot]
        if again is None:
            self._waiting[seat] = None
            self._wait()
        else:
            self._begin(again)

    def _end(self, slot: Slot) -> None:
        lease = self._leased[slot].lease
        try:
            lease.close()
        except LeaseRevoked:
            self._seldom.warning(
                "an actor was not done on CPU %d after %g s while another run waited for it: they "
                "shared it until now", slot.cpu, _LEASE_SECONDS,
            )  # fmt: skip
        del self._leased[slot]
        self._idle[lease.seat] = slot

    # -- without the pool ----------------------------------------------------------------------

    def _guarded(self, change: Callable[[], None]) -> None:
        try:
            change()
        except (ArtosError, OSError) as error:
            _log.warning("%s: %s", _NOT_SHARED, error)
            held = [*self._leased]
            others = [slot for slot in self._slots.values() if slot not in held]
            self._own = OwnSlots(others[: self._most - len(held)])
            self._leased.clear()
            self._waiting.clear()
            with suppress(ArtosError, OSError):
                self.close()


def leased_slots(
    slots: Sequence[Slot],
    most: int,
    workload: str,
    ring: Callable[[], None],
    clock: Clock,
    *,
    weight: float = 1.0,
    priority: int = 0,
) -> Slots:
    """At most so many of these slots, shared with the other runs that use the same CPUs.

    Runs that may use other CPUs are not known to this one, also where some CPUs are the same.
    """
    cpus = sorted(slot.cpu for slot in slots)
    runs = [[cpu for _, cpu in run] for _, run in groupby(enumerate(cpus), lambda p: p[1] - p[0])]
    text = ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    # All runs that may use the same CPUs have this name for their slots.
    kind = f"{_SLOTS}{text if len(text) <= _LONGEST else xxh3_64_hexdigest(text.encode())}"
    names = {f"slot {slot.cpu} of {kind.removeprefix(_SLOTS)}": slot for slot in slots}
    pool = None
    try:
        pool = Pool.join([Resource(name, kind) for name in names])
        enter = partial(pool.enter, workload, kind, weight=weight, priority=priority)
        seats = [enter()]  # one at least, and as many more as the pool has room for
        with suppress(PoolFull):
            seats += [enter() for _ in range(min(most, len(slots)) - 1)]
        return LeasedSlots(pool, names, seats, ring, clock)
    except (ArtosError, OSError) as error:
        if pool is not None:
            pool.close()
        _log.warning("%s: %s", _NOT_SHARED, error)
        return OwnSlots(slots[:most])


def _distance(slot: Slot | None, wish: Slot | None) -> int:
    if slot is None or wish is None:
        return 2
    return 0 if slot == wish else 1 + (slot.node != wish.node)
