"""CPU slots and the queue for them (paper §4.3): which actor may run, and on which CPU."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from artos.clock import Clock

Holder = TypeVar("Holder", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Slot:
    """The right to use one CPU. ``node`` is its memory node, None if that does not matter."""

    cpu: int
    node: int | None = None


@dataclass(slots=True)
class _Workload(Generic[Holder]):
    """The queue and the usage of one workload.

    ``lead`` is added to its held seconds when workloads are compared. ``present``: it waited for
    or held a slot when the table last decided.
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
    """Hands out slots: no two holders ever share a slot, and every waiting holder gets its turn.

    Within a workload, slots go first come, first served. Between workloads, the next slot goes to
    the workload that holds the fewest slots; of equal ones to that which has held slots for the
    least time, then to that whose last turn is longest ago. A workload that comes (back) counts as
    if it had held slots as long as the present workload that held least: else it would shut the
    others out until it had caught up with their past.

    Only ``granted`` decides, so releases and requests between two calls are seen together: a
    holder gets the slot it had last whenever that slot is free.
    """

    def __init__(self, slots: Iterable[Slot], clock: Clock) -> None:
        self._clock = clock
        self._workloads: dict[str, _Workload[Holder]] = {}
        self._of: dict[Holder, str] = {}  # the workload of each holder, waiting or not
        self._held: dict[Holder, Slot] = {}
        self._last: dict[Holder, Slot] = {}
        self._turns = 0
        self.have(slots)

    def have(self, slots: Iterable[Slot]) -> None:
        """Hand out these slots from now on; other slots are dropped once they are released."""
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
        """Queue for a slot. A second request while waiting or holding changes nothing."""
        if holder in self._of:
            return
        self._of[holder] = workload
        self._workloads.setdefault(workload, _Workload()).queue[holder] = None

    def granted(self) -> list[tuple[Holder, Slot]]:
        """Give free slots to waiting holders; returns those that got one, in order."""
        count = min(len(self._free), len(self._of) - len(self._held))
        self._update_presence()
        chosen = [self._next() for _ in range(count)]
        for holder in chosen:
            if (last := self._last.get(holder)) in self._free and last is not None:
                self._take(holder, last)
        for holder in chosen:
            if holder not in self._held:
                self._take(holder, self._nearest(holder))
        return [(holder, self._held[holder]) for holder in chosen]

    def release(self, holder: Holder) -> None:
        """Give the holder's slot back. No error if it has none."""
        if slot := self._held.pop(holder, None):
            if slot in self._slots:
                self._free[slot] = None
            self._workloads[self._of.pop(holder)].hold(-1, self._clock.now())

    def withdraw(self, holder: Holder) -> None:
        """Stop waiting. A holder that has a slot keeps it; no error if it does not wait."""
        if holder in self._of and holder not in self._held:
            del self._workloads[self._of.pop(holder)].queue[holder]

    def of(self, holder: Holder) -> Slot | None:
        """The slot a holder has."""
        return self._held.get(holder)

    def waiting(self, workload: str) -> tuple[Holder, ...]:
        """The holders that wait, in order of arrival."""
        entry = self._workloads.get(workload)
        return tuple(entry.queue) if entry else ()

    def is_crowded(self, workload: str) -> bool:
        """Whether any holder of the workload waits."""
        entry = self._workloads.get(workload)
        return entry is not None and bool(entry.queue)

    def held_seconds(self, workload: str) -> float:
        """Slot-seconds a workload has held so far, whether it used the CPU or not."""
        entry = self._workloads.get(workload)
        return entry.seconds_at(self._clock.now()) if entry else 0.0

    def _update_presence(self) -> None:
        now = self._clock.now()
        workloads = self._workloads.values()
        here = [each for each in workloads if each.present and (each.queue or each.held)]
        least = min((each.seconds_at(now) + each.lead for each in here), default=0.0)
        for each in workloads:
            if each.queue and not each.present:
                each.lead = max(each.lead, least - each.seconds)
            each.present = bool(each.queue or each.held)

    def _next(self) -> Holder:
        """Take the next holder off its queue; its workload is charged for a slot from here on."""
        now = self._clock.now()
        entry = min(
            (each for each in self._workloads.values() if each.queue),
            key=lambda each: (each.held, each.seconds_at(now) + each.lead, each.turn),
        )
        holder = next(iter(entry.queue))
        del entry.queue[holder]
        entry.hold(1, now)
        self._turns += 1
        entry.turn = self._turns
        return holder

    def _nearest(self, holder: Holder) -> Slot:
        """The slot that has been free longest, preferably on the memory node of its last slot."""
        last = self._last.get(holder)
        near = (slot for slot in self._free if last is not None and slot.node == last.node)
        return next(near, next(iter(self._free)))

    def _take(self, holder: Holder, slot: Slot) -> None:
        del self._free[slot]
        self._held[holder] = self._last[holder] = slot
