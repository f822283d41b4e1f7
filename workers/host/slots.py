"""CPU slots and the queue for them (paper §4.3): who may run an invocation, and where."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from artos.clock import Clock

Holder = TypeVar("Holder", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Slot:
    """The right to use one CPU. ``node`` is where memory comes from, None if it does not matter."""

    cpu: int
    node: int | None = None


@dataclass(slots=True)
class _Workload(Generic[Holder]):
    """Books of one workload. ``lead`` is put on its held seconds when workloads are compared.

    ``present`` is whether it waited or held when the table last decided.
    """

    queue: dict[Holder, None] = field(default_factory=dict)  # an ordered set
    held: int = 0
    seconds: float = 0.0
    since: float = 0.0
    lead: float = 0.0
    turn: int = 0
    present: bool = False

    def hold(self, more: int, now: float) -> None:
        self.seconds = self.seconds_at(now)
        self.since, self.held = now, self.held + more

    def seconds_at(self, now: float) -> float:
        return self.seconds + self.held * (now - self.since)


class SlotTable(Generic[Holder]):
    """Hands out slots: no two holders ever share one, and every waiting holder gets its turn.

    Within a workload it is first come, first served. Between workloads the one that holds the
    fewest slots is next, then the one that has held slots for the least time, then the one whose
    turn is longest ago. A workload that comes (back) counts as if it had held as long as the one
    that has held least of those that are there: else it would shut the others out until it had
    caught up with their past.

    Decisions fall in ``granted`` and nowhere else, so what is released and asked for between two
    calls is seen as one: a holder gets the slot it had last whenever that is among the free ones.
    """

    def __init__(self, slots: Iterable[Slot], clock: Clock) -> None:
        self._clock = clock
        self._workloads: dict[str, _Workload[Holder]] = {}
        self._of: dict[Holder, str] = {}  # the workload of each that waits or holds
        self._held: dict[Holder, Slot] = {}
        self._last: dict[Holder, Slot] = {}
        self._turns = 0
        self.have(slots)

    def have(self, slots: Iterable[Slot]) -> None:
        """Hand out these from now on; others that are held are gone once they are given back."""
        self._slots = dict.fromkeys(slots)
        if len({slot.cpu for slot in self._slots}) != len(self._slots):
            raise ValueError(f"two slots on one CPU: {[*self._slots]}")
        held = set(self._held.values())
        # An ordered set: longest free first.
        self._free = {slot: None for slot in self._slots if slot not in held}

    def __repr__(self) -> str:
        queued = sum(len(each.queue) for each in self._workloads.values())
        return f"<SlotTable held={len(self._held)} free={len(self._free)} waiting={queued}>"

    def request(self, workload: str, holder: Holder) -> None:
        """Queue for a slot. Asking again while waiting or holding changes nothing."""
        if holder in self._of:
            return
        self._of[holder] = workload
        self._workloads.setdefault(workload, _Workload()).queue[holder] = None

    def granted(self) -> list[tuple[Holder, Slot]]:
        """Give free slots to those that wait; returns the new holders in order."""
        count = min(len(self._free), len(self._of) - len(self._held))
        self._see_who_is_present()
        chosen = [self._next() for _ in range(count)]
        for holder in chosen:
            if (last := self._last.get(holder)) in self._free and last is not None:
                self._take(holder, last)
        for holder in chosen:
            if holder not in self._held:
                self._take(holder, self._nearest(holder))
        return [(holder, self._held[holder]) for holder in chosen]

    def release(self, holder: Holder) -> None:
        """Give a slot back; fine if there is none."""
        if slot := self._held.pop(holder, None):
            if slot in self._slots:
                self._free[slot] = None
            self._workloads[self._of.pop(holder)].hold(-1, self._clock.now())

    def withdraw(self, holder: Holder) -> None:
        """Wait no longer; fine if the holder does not wait. What it holds it keeps."""
        if holder in self._of and holder not in self._held:
            del self._workloads[self._of.pop(holder)].queue[holder]

    def of(self, holder: Holder) -> Slot | None:
        """The slot a holder has."""
        return self._held.get(holder)

    def waiting(self, workload: str) -> tuple[Holder, ...]:
        """The holders that wait, in order of arrival."""
        books = self._workloads.get(workload)
        return tuple(books.queue) if books else ()

    def is_crowded(self, workload: str) -> bool:
        """Whether anybody waits."""
        books = self._workloads.get(workload)
        return books is not None and bool(books.queue)

    def held_seconds(self, workload: str) -> float:
        """Slot-seconds a workload has held so far: its bill, whether it used the CPU or not."""
        books = self._workloads.get(workload)
        return books.seconds_at(self._clock.now()) if books else 0.0

    def _see_who_is_present(self) -> None:
        now = self._clock.now()
        books = self._workloads.values()
        here = [each for each in books if each.present and (each.queue or each.held)]
        least = min((each.seconds_at(now) + each.lead for each in here), default=0.0)
        for each in books:
            if each.queue and not each.present:
                each.lead = max(each.lead, least - each.seconds)
            each.present = bool(each.queue or each.held)

    def _next(self) -> Holder:
        """Take the next in line off its queue; it counts as a holder from here on."""
        now = self._clock.now()
        books = min(
            (each for each in self._workloads.values() if each.queue),
            key=lambda each: (each.held, each.seconds_at(now) + each.lead, each.turn),
        )
        holder = next(iter(books.queue))
        del books.queue[holder]
        books.hold(1, now)
        self._turns += 1
        books.turn = self._turns
        return holder

    def _nearest(self, holder: Holder) -> Slot:
        """The slot that has been free longest, where the holder's memory is if there is one."""
        last = self._last.get(holder)
        near = (slot for slot in self._free if last is not None and slot.node == last.node)
        return next(near, next(iter(self._free)))

    def _take(self, holder: Holder, slot: Slot) -> None:
        del self._free[slot]
        self._held[holder] = self._last[holder] = slot
