"""The slot table: never two on a slot, first come first served, and nobody is forgotten."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from artos.clock import ManualClock
from workers.host.slots import OwnSlots, Slot, SlotTable


def table(cpus: int, clock: ManualClock | None = None) -> SlotTable[int]:
    return SlotTable(OwnSlots(Slot(cpu) for cpu in range(cpus)), clock or ManualClock())


def test_who_asks_gets_a_slot_and_others_wait_in_order() -> None:
    slots = table(2)
    for holder in range(4):
        slots.request(holder)
    assert slots.granted() == [(0, Slot(0)), (1, Slot(1))]
    assert slots.granted() == [], "told once"
    assert (slots.of(0), slots.of(2)) == (Slot(0), None)
    assert slots.waiting == (2, 3)
    slots.release(1)
    assert slots.granted() == [(2, Slot(1))]


def test_nothing_is_handed_out_before_the_table_is_asked() -> None:
    slots = table(1)
    slots.request(0)
    assert slots.of(0) is None
    assert repr(slots) == "<SlotTable held=0 waiting=1>"
    slots.granted()
    assert slots.of(0) == Slot(0)
    assert repr(slots) == "<SlotTable held=1 waiting=0>"


def test_asking_or_giving_back_twice_changes_nothing() -> None:
    slots = table(1)
    for _ in range(2):
        slots.request(0)
    slots.granted()
    slots.request(0)
    assert slots.waiting == ()
    for _ in range(2):
        slots.release(0)
    for holder in (1, 2):
        slots.request(holder)
    assert slots.granted() == [(1, Slot(0))]


def test_who_withdraws_is_passed_over_but_keeps_what_it_holds() -> None:
    slots = table(1)
    for holder in range(3):
        slots.request(holder)
    slots.granted()
    slots.withdraw(0)
    slots.withdraw(1)
    slots.withdraw(7)
    assert slots.of(0) == Slot(0)
    slots.release(0)
    assert slots.granted() == [(2, Slot(0))]


def test_who_withdrew_queues_at_the_end() -> None:
    slots = table(1)
    for holder in (0, 1, 2):
        slots.request(holder)
    slots.withdraw(0)
    slots.request(0)
    assert slots.waiting == (1, 2, 0)


@pytest.mark.parametrize("between", [False, True])
def test_a_holder_comes_back_to_its_slot(between: bool) -> None:
    slots = table(3)
    for holder in range(3):
        slots.request(holder)
    slots.granted()
    for holder in range(3):
        slots.release(holder)
    if between:
        slots.granted()  # by which all slots go back to where they come from
    for holder in (2, 0, 1):
        slots.request(holder)
    assert slots.granted() == [(2, Slot(2)), (0, Slot(0)), (1, Slot(1))]


@pytest.mark.parametrize("between", [False, True])
def test_a_newcomer_does_not_take_the_slot_of_one_who_comes_back_with_it(between: bool) -> None:
    slots = table(2)
    slots.request(0)
    slots.granted()  # on CPU 0
    slots.release(0)  # CPU 1 has now been free for longer, CPU 0 is the other's
    if between:
        slots.granted()
    slots.request(8)
    slots.request(0)
    assert slots.granted() == [(8, Slot(1)), (0, Slot(0))]


def test_if_its_slot_is_taken_a_holder_stays_near_its_memory() -> None:
    near, far, other = Slot(0, 0), Slot(1, 1), Slot(2, 0)
    slots: SlotTable[int] = SlotTable(OwnSlots([near, far, other]), ManualClock())
    slots.request(0)
    assert slots.granted() == [(0, near)]
    slots.release(0)
    for holder in (1, 2, 3):
        slots.request(holder)
    assert {slot for _, slot in slots.granted()} == {near, far, other}
    last = {slots.of(holder): holder for holder in (1, 2, 3)}
    slots.release(last[far])
    slots.release(last[other])
    slots.request(0)
    assert slots.granted() == [(0, other)], "though the far one has been free for longer"


def test_held_seconds_are_those_of_all_slots() -> None:
    clock = ManualClock()
    slots = table(2, clock)
    assert slots.held_seconds == 0.0
    for holder in range(2):
        slots.request(holder)
    clock.advance(100.0)
    assert slots.held_seconds == 0.0, "waiting is free"
    slots.granted()
    clock.advance(3.0)
    slots.release(0)
    clock.advance(4.0)
    assert slots.held_seconds == 3.0 + 7.0
    slots.release(1)
    clock.advance(50.0)
    assert slots.held_seconds == 10.0


def test_two_slots_on_one_cpu_are_refused() -> None:
    with pytest.raises(ValueError, match="two slots on one CPU"):
        OwnSlots([Slot(1, 0), Slot(1, 1)])


def test_holders_have_at_most_so_many_slots_as_they_may() -> None:
    """A limit that falls takes nothing away; what is beyond it goes back to where it came from."""
    clock, own = ManualClock(), OwnSlots(Slot(cpu) for cpu in range(3))
    slots: SlotTable[int] = SlotTable(own, clock, limit=2)
    for holder in range(4):
        slots.request(holder)
    assert [holder for holder, _ in slots.granted()] == [0, 1]
    slots.limit = 1
    slots.release(0)
    assert slots.granted() == []
    assert len(own.take([None] * 3)) == 2, "others may have them"
    slots.release(1)
    assert [holder for holder, _ in slots.granted()] == [2]


def test_two_that_had_the_same_slot_last_both_get_one() -> None:
    slots = table(2)
    for holder in (1, 0):
        slots.request(holder)
        slots.granted()
        slots.release(holder)
    slots.request(0)
    slots.request(1)
    assert [holder for holder, _ in slots.granted()] == [0, 1]
    for holder in (0, 1):
        slots.release(holder)
    slots.granted()
    for holder in (0, 1):
        slots.request(holder)
    assert [holder for holder, _ in slots.granted()] == [0, 1], "also once nothing was kept"


def test_one_slot_that_two_wish_for_is_given_once() -> None:
    own = OwnSlots([Slot(0), Slot(1)])
    assert own.take([Slot(0), Slot(0)]) == [Slot(0), Slot(1)]


def test_it_is_crowded_while_anybody_waits() -> None:
    slots = table(1)
    assert not slots.is_crowded
    for holder in (0, 1):
        slots.request(holder)
    assert slots.is_crowded
    slots.granted()
    assert slots.is_crowded
    slots.withdraw(1)
    assert not slots.is_crowded


class Traffic(RuleBasedStateMachine):
    """Anything that may happen to a table, compared with the simplest books of it."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.table = table(3, self.clock)
        self.slots = {Slot(cpu) for cpu in range(3)}
        self.limit = 3
        self.queue: list[int] = []
        self.holds: dict[int, Slot] = {}
        self.seconds = 0.0

    @rule(holder=st.integers(0, 5))
    def request(self, holder: int) -> None:
        self.table.request(holder)
        if holder not in self.queue and holder not in self.holds:
            self.queue.append(holder)

    @rule(holder=st.integers(0, 5))
    def release(self, holder: int) -> None:
        self.table.release(holder)
        self.holds.pop(holder, None)

    @rule(holder=st.integers(0, 5))
    def withdraw(self, holder: int) -> None:
        self.table.withdraw(holder)
        if holder in self.queue:
            self.queue.remove(holder)

    @rule(seconds=st.sampled_from([0.0, 0.5, 7.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.seconds += seconds * len(self.holds)

    @rule(slots=st.integers(1, 4))
    def have_at_most(self, slots: int) -> None:
        self.limit = self.table.limit = slots

    @rule()
    def grant(self) -> None:
        for holder, slot in self.table.granted():
            assert len(self.holds) < self.limit
            assert self.queue.pop(0) == holder, "first come, first served"
            assert slot not in self.holds.values(), "two on one slot"
            self.holds[holder] = slot
        free = self.slots.difference(self.holds.values())
        full = len(self.holds) >= self.limit
        assert full or not free or not self.queue, "a slot is left unused"

    @invariant()
    def books_agree(self) -> None:
        for holder in range(6):
            assert self.table.of(holder) == self.holds.get(holder)
        assert self.table.waiting == tuple(self.queue)
        assert self.table.held_seconds == pytest.approx(self.seconds)


TestTraffic = Traffic.TestCase
