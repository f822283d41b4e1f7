"""CPU slots and a run's queue for them (paper §4.3): which actor may run, and on which CPU."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from artos.clock import Clock

Holder = TypeVar("Holder", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Slot:
    """The right to use one CPU, alone or with others."""

    cpu: int
    node: int | None = None
    """Its memory node; None if that does not matter."""
    share: int = 0
    """Which of those that share it this is, where several actors do."""
    beside: tuple[int, ...] = ()
    """Further CPUs that its process may use, as those who share them may use this one."""

    @property
    def cpus(self) -> frozenset[int]:
        """All CPUs that its process may use."""
        return frozenset((self.cpu, *self.beside))


def nearest(slots: Iterable[Slot], last: Slot | None) -> Slot | None:
    """The first of some slots, preferably ``last``, else one on its memory node; None if none."""
    there = [*slots]
    if last in there:
        return last
    near = (slot for slot in there if last is not None and slot.node == last.node)
    return next(near, next(iter(there), None))


class Slots(Protocol):
    """Where a run's slots come from."""

    @property
    def wanted(self) -> bool:
        """Whether another run waits for a slot that this one has."""

    def arrived(self) -> list[Slot]:
        """Slots that were waited for and came."""

    def take(self, wishes: Sequence[Slot | None]) -> list[Slot]:
        """Slots for these wishes, each of which is the slot that would be best, if any.

        If there are fewer slots than wishes, the others are waited for, and no more than that.
        """

    def again(self, slot: Slot) -> Slot | None:
        """The slot that the run's next actor gets after one was left: that one, another, or none.

        If another run waits, it may be that run's turn; a slot is then waited for.
        """

    def give_back(self, slot: Slot) -> None:
        """Give back a slot that no actor of this run needs now."""

    def close(self) -> None:
        """Give everything back."""


class OwnSlots:
    """Slots that no other run uses."""

    wanted = False

    def __init__(self, slots: Iterable[Slot]) -> None:
        self._free = dict.fromkeys(slots)  # an ordered set: longest free first
        if len({slot.cpu for slot in self._free}) != len(self._free):
            raise ValueError(f"two slots on one CPU: {[*self._free]}")

    def arrived(self) -> list[Slot]:
        """None: nothing is waited for here."""
        return []

    def take(self, wishes: Sequence[Slot | None]) -> list[Slot]:
        """Free slots for these wishes; none are waited for."""
        found, others = list[Slot](), list[Slot | None]()
        for wish in wishes:
            if wish in self._free and wish is not None:
                del self._free[wish]
                found.append(wish)
            else:
                others.append(wish)
        for wish in others[: len(self._free)]:
            if (near := nearest(self._free, wish)) is not None:
                del self._free[near]
                found.append(near)
        return found

    def again(self, slot: Slot) -> Slot | None:
        """The same slot: no other run waits."""
        return slot

    def give_back(self, slot: Slot) -> None:
        """Count the slot as free."""
        self._free[slot] = None

    def close(self) -> None:
        """Do nothing: the slots belong to this run."""


class SlotTable(Generic[Holder]):
    """Hands a run's slots to its actors, first come, first served: no two ever share a slot.

    Only ``granted`` decides, so releases and requests between two calls are seen together: a
    holder gets the slot it had last whenever that slot is free. Slots that no holder needs go back
    to where they come from. All holders together have at most ``limit`` slots; if that falls below
    what they hold, no one gets another slot until enough were released.
    """

    def __init__(self, slots: Slots, clock: Clock, limit: int = sys.maxsize) -> None:
        self._source, self._clock, self.limit = slots, clock, limit
        self._queue: dict[Holder, None] = {}  # an ordered set, like the next one
        self._free: dict[Slot, None] = {}
        self._held: dict[Holder, Slot] = {}
        self._last: dict[Holder, Slot] = {}
        self._seconds = self._waited = 0.0
        self._since = clock.now()

    def __repr__(self) -> str:
        return f"<SlotTable held={len(self._held)} waiting={len(self._queue)}>"

    def request(self, holder: Holder) -> None:
        """Queue for a slot. A second request while waiting or holding changes nothing."""
        if holder not in self._held:
            self._count()
            self._queue[holder] = None

    def granted(self) -> list[tuple[Holder, Slot]]:
        """Give slots to waiting holders; returns those that got one, in order."""
        # As many free slots as there are holders that wait and may have one, if possible.
        self._free |= dict.fromkeys(self._source.arrived())
        if self._queue:
            again = [self._source.again(slot) for slot in self._free]
            self._free = dict.fromkeys(slot for slot in again if slot is not None)
        missing = [*self._queue][len(self._free) : self._room]
        kept, wishes = dict(self._free), []
        for holder in self._queue:
            if (last := self._last.get(holder)) in kept and last is not None:
                del kept[last]  # several may have had it last: it is there for one of them
            else:
                wishes.append(last)
        self._free |= dict.fromkeys(self._source.take(wishes[: len(missing)]))
        chosen = [*self._queue][: min(len(self._free), self._room)]
        for holder in chosen:
            if (last := self._last.get(holder)) in self._free and last is not None:
                self._take(holder, last)
        for holder in chosen:
            if holder not in self._held and (slot := nearest(self._free, self._last.get(holder))):
                self._take(holder, slot)
        for slot in self._free:
            self._source.give_back(slot)
        self._free.clear()
        return [(holder, self._held[holder]) for holder in chosen]

    @property
    def _room(self) -> int:
        return max(0, self.limit - len(self._held))

    def release(self, holder: Holder) -> None:
        """Give the holder's slot back. No error if it has none."""
        if slot := self._held.get(holder):
            self._count()
            del self._held[holder]
            self._free[slot] = None

    def withdraw(self, holder: Holder) -> None:
        """Stop waiting. A holder that has a slot keeps it; no error if it does not wait."""
        self._count()
        self._queue.pop(holder, None)

    def of(self, holder: Holder) -> Slot | None:
        """The slot a holder has."""
        return self._held.get(holder)

    @property
    def waiting(self) -> tuple[Holder, ...]:
        """The holders that wait, in order of arrival."""
        return tuple(self._queue)

    def close(self) -> None:
        """Give all slots back."""
        self._source.close()

    @property
    def is_crowded(self) -> bool:
        """Whether anyone, here or in another run, waits for a slot that has been handed out."""
        return bool(self._queue) or self._source.wanted

    @property
    def held_seconds(self) -> float:
        """Slot-seconds held so far, whether or not the CPU was used."""
        self._count()
        return self._seconds

    @property
    def waited_seconds(self) -> float:
        """Seconds that holders have waited for slots so far."""
        self._count()
        return self._waited

    def _count(self) -> None:
        now = self._clock.now()
        cpus = len({slot.cpu for slot in self._held.values()})  # which some may share
        self._seconds += cpus * (now - self._since)
        self._waited += len(self._queue) * (now - self._since)
        self._since = now

    def _take(self, holder: Holder, slot: Slot) -> None:
        self._count()
        del self._free[slot], self._queue[holder]
        self._held[holder] = self._last[holder] = slot
