"""CPU slots that several actors share: who gets which, and when a CPU goes to another run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from artos.clock import ManualClock
from workers.host.shared_slots import SharedSlots
from workers.host.slots import OwnSlots, Slot, SlotTable


class Contested(OwnSlots):
    """Another run may want a slot; it gets the first that is offered."""

    wanted = False

    def __init__(self, cpus: int) -> None:
        super().__init__(Slot(cpu) for cpu in range(cpus))
        self.offered: list[Slot] = []

    def again(self, slot: Slot) -> Slot | None:
        if not self.wanted:
            return slot
        self.offered.append(slot)
        self.wanted = False
        return None


def table(source: OwnSlots, shares: int = 2, clock: ManualClock | None = None) -> SlotTable[int]:
    return SlotTable(SharedSlots(source, shares), clock or ManualClock())


def request(slots: SlotTable[int], *holders: int) -> list[tuple[int, int]]:
    """Who is granted which CPU."""
    for holder in holders:
        slots.request(holder)
    return [(holder, slot.cpu) for holder, slot in slots.granted()]


def test_as_many_run_as_there_are_shares() -> None:
    slots = table(OwnSlots([Slot(0), Slot(1)]))
    assert sorted(request(slots, 0, 1, 2, 3, 4)) == [(0, 0), (1, 1), (2, 0), (3, 1)]
    assert slots.waiting == (4,)
    assert len({slots.of(holder) for holder in range(4)}) == 4, "no two have the same one"
    slots.release(2)
    assert request(slots) == [(4, 0)]
    for holder in (0, 1, 3, 4):
        slots.release(holder)
    assert request(slots) == []
    assert request(slots, 3, 0) == [(3, 1), (0, 0)], "where they were"


@pytest.mark.parametrize("wishes", range(1, 8))
def test_each_has_a_cpu_alone_as_long_as_there_are_some(wishes: int) -> None:
    shared = SharedSlots(OwnSlots(Slot(cpu) for cpu in range(3)), 3)
    found = shared.take([None] * wishes)
    assert len(found) == len({*found}) == wishes
    users = [sum(slot.cpu == cpu for slot in found) for cpu in range(3)]
    assert max(users) - min(users) <= 1
    assert len(shared.take([None] * 5)) == min(5, 9 - wishes)


def test_a_cpu_counts_once_however_many_share_it() -> None:
    clock = ManualClock()
    slots = table(OwnSlots([Slot(0), Slot(1)]), 2, clock)
    request(slots, 0, 1)
    clock.advance(10)
    request(slots, 2)
    clock.advance(1)
    assert slots.held_seconds == 22


def test_who_shares_cpus_may_use_all_that_the_run_has_by_then() -> None:
    """But for one that goes to another run, and those of other memory nodes."""
    source = Contested(3)
    shared = SharedSlots(source, 2)
    (alone,) = shared.take([None])
    assert alone.cpus == {0}
    others = shared.take([None] * 5)
    assert {slot.cpus for slot in others} == {frozenset(range(3))}
    source.wanted = True
    assert shared.again(others[0]) is None
    source.wanted = False
    assert shared.again(others[1]) == replace(others[1], beside=(0,))
    shared.give_back(alone)
    assert shared.take([alone]) == [Slot(0, beside=(2,))], "where it was, with more beside"
    near, far = SharedSlots(OwnSlots([Slot(0, 0), Slot(1, 1)]), 2).take([None, None])
    assert (near.cpus, far.cpus) == ({0}, {1})


def test_another_run_gets_a_cpu_once_all_have_left_it() -> None:
    source = Contested(2)
    slots = table(source)
    request(slots, 0, 1, 2, 3, 4, 5)
    source.wanted = True
    slots.release(0)
    assert request(slots) == [], "2 is still there"
    assert source.offered == []
    slots.release(2)
    assert request(slots) == []
    assert source.offered == [Slot(0)]
    slots.release(3)
    assert request(slots) == [(4, 1)], "nobody wants the other one"


def test_all_are_given_back() -> None:
    source = Contested(2)
    slots = table(source, 3)
    request(slots, *range(5))
    for holder in range(5):
        slots.release(holder)
    assert request(slots) == []
    assert sorted(slot.cpu for slot in source.take([None, None, None])) == [0, 1]
