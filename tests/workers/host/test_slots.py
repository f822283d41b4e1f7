"""The slot table: never two on a slot, first come first served, fair, and nobody is forgotten."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from artos.clock import ManualClock
from workers.host.slots import Slot, SlotTable

A, B, C = "a", "b", "c"


def table(cpus: int, clock: ManualClock | None = None) -> SlotTable[int]:
    return SlotTable((Slot(cpu) for cpu in range(cpus)), clock or ManualClock())


def test_who_asks_gets_a_slot_and_others_wait_in_order() -> None:
    slots = table(2)
    for holder in range(4):
        slots.request(A, holder)
    assert slots.granted() == [(0, Slot(0)), (1, Slot(1))]
    assert slots.granted() == [], "told once"
    assert (slots.of(0), slots.of(2)) == (Slot(0), None)
    assert slots.waiting(A) == (2, 3)
    slots.release(1)
    assert slots.granted() == [(2, Slot(1))]


def test_nothing_is_handed_out_before_the_table_is_asked() -> None:
    slots = table(1)
    slots.request(A, 0)
    assert slots.of(0) is None
    assert repr(slots) == "<SlotTable held=0 free=1 waiting=1>"
    slots.granted()
    assert slots.of(0) == Slot(0)
    assert repr(slots) == "<SlotTable held=1 free=0 waiting=0>"


def test_asking_or_giving_back_twice_changes_nothing() -> None:
    slots = table(1)
    for _ in range(2):
        slots.request(A, 0)
    slots.granted()
    slots.request(A, 0)
    assert slots.waiting(A) == ()
    for _ in range(2):
        slots.release(0)
    for holder in (1, 2):
        slots.request(A, holder)
    assert slots.granted() == [(1, Slot(0))]


def test_who_withdraws_is_passed_over_but_keeps_what_it_holds() -> None:
    slots = table(1)
    for holder in range(3):
        slots.request(A, holder)
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
        slots.request(A, holder)
    slots.withdraw(0)
    slots.request(A, 0)
    assert slots.waiting(A) == (1, 2, 0)


def test_a_holder_comes_back_to_its_slot() -> None:
    slots = table(3)
    for holder in range(3):
        slots.request(A, holder)
    slots.granted()
    for holder in range(3):
        slots.release(holder)
    for holder in (2, 0, 1):
        slots.request(A, holder)
    assert slots.granted() == [(2, Slot(2)), (0, Slot(0)), (1, Slot(1))]


def test_a_newcomer_does_not_take_the_slot_of_one_who_comes_back_with_it() -> None:
    slots = table(2)
    slots.request(A, 0)
    slots.granted()  # on CPU 0
    slots.release(0)  # CPU 1 has now been free for longer, CPU 0 is the other's
    slots.request(A, 8)
    slots.request(A, 0)
    assert slots.granted() == [(8, Slot(1)), (0, Slot(0))]


def test_if_its_slot_is_taken_a_holder_stays_near_its_memory() -> None:
    near, far, other = Slot(0, 0), Slot(1, 1), Slot(2, 0)
    slots: SlotTable[int] = SlotTable([near, far, other], ManualClock())
    slots.request(A, 0)
    assert slots.granted() == [(0, near)]
    slots.release(0)
    for holder in (1, 2, 3):
        slots.request(A, holder)
    assert slots.granted() == [(1, far), (2, other), (3, near)]
    slots.release(1)
    slots.release(2)
    slots.request(A, 0)
    assert slots.granted() == [(0, other)], "though the far one has been free for longer"


def test_workloads_hold_the_same_number() -> None:
    slots = table(4)
    for holder in range(4):
        slots.request(A, holder)
    for holder in range(10, 14):
        slots.request(B, holder)
    assert [holder for holder, _ in slots.granted()] == [0, 10, 1, 11]


def test_who_has_held_less_is_next() -> None:
    clock = ManualClock()
    slots = table(1, clock)
    slots.request(A, 0)
    slots.request(B, 10)
    assert slots.granted() == [(0, Slot(0))]
    clock.advance(9.0)
    slots.release(0)
    slots.request(A, 0)
    assert slots.granted() == [(10, Slot(0))]
    clock.advance(5.0)
    slots.release(10)
    slots.request(B, 10)
    assert slots.granted() == [(10, Slot(0))], "5 s are less than 9 s"
    clock.advance(5.0)
    slots.release(10)
    slots.request(B, 10)
    assert slots.granted() == [(0, Slot(0))]


def test_held_seconds_are_the_bill_of_all_slots() -> None:
    clock = ManualClock()
    slots = table(2, clock)
    assert slots.held_seconds(A) == 0.0
    for holder in range(2):
        slots.request(A, holder)
    clock.advance(100.0)
    assert slots.held_seconds(A) == 0.0, "waiting is free"
    slots.granted()
    clock.advance(3.0)
    slots.release(0)
    clock.advance(4.0)
    assert slots.held_seconds(A) == 3.0 + 7.0
    slots.release(1)
    clock.advance(50.0)
    assert slots.held_seconds(A) == 10.0


def test_a_workload_that_comes_late_does_not_shut_out_the_others() -> None:
    clock = ManualClock()
    slots = table(1, clock)
    slots.request(A, 0)
    slots.granted()
    clock.advance(3600.0)
    slots.request(A, 1)
    slots.request(B, 10)
    turns = []
    holder = 0
    for _ in range(6):
        slots.release(holder)
        slots.request(B if holder >= 10 else A, holder)
        ((holder, _slot),) = slots.granted()
        turns.append(holder >= 10)
        clock.advance(1.0)
    assert turns.count(True) == 3, turns
    assert slots.held_seconds(A) == 3603.0, "the handicap is not on the bill"


def test_two_slots_on_one_cpu_are_refused() -> None:
    with pytest.raises(ValueError, match="two slots on one CPU"):
        SlotTable([Slot(1, 0), Slot(1, 1)], ManualClock())


def test_other_slots_from_now_on() -> None:
    slots = table(2)
    for holder in range(4):
        slots.request(A, holder)
    slots.granted()
    slots.have([Slot(1), Slot(2)])
    assert slots.granted() == [(2, Slot(2))]
    assert slots.of(0) == Slot(0), "it finishes where it is"
    slots.release(0)
    assert slots.granted() == []
    slots.release(1)
    assert slots.granted() == [(3, Slot(1))]


class Traffic(RuleBasedStateMachine):
    """Anything that may happen to a table, compared with the simplest books of it."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.table = table(3, self.clock)
        self.slots = {Slot(cpu) for cpu in range(3)}
        self.queues: dict[str, list[int]] = {A: [], B: []}
        self.holds: dict[int, Slot] = {}
        self.seconds = {A: 0.0, B: 0.0}

    @staticmethod
    def workload(holder: int) -> str:
        return A if holder < 5 else B

    @rule(holder=st.integers(0, 9))
    def request(self, holder: int) -> None:
        queue = self.queues[self.workload(holder)]
        self.table.request(self.workload(holder), holder)
        if holder not in queue and holder not in self.holds:
            queue.append(holder)

    @rule(holder=st.integers(0, 9))
    def release(self, holder: int) -> None:
        self.table.release(holder)
        self.holds.pop(holder, None)

    @rule(holder=st.integers(0, 9))
    def withdraw(self, holder: int) -> None:
        self.table.withdraw(holder)
        queue = self.queues[self.workload(holder)]
        if holder in queue:
            queue.remove(holder)

    @rule(cpus=st.sets(st.integers(0, 4), max_size=4))
    def have(self, cpus: set[int]) -> None:
        self.slots = {Slot(cpu) for cpu in cpus}
        self.table.have(map(Slot, cpus))

    @rule(seconds=st.sampled_from([0.0, 0.5, 7.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for holder in self.holds:
            self.seconds[self.workload(holder)] += seconds

    @rule()
    def grant(self) -> None:
        for holder, slot in self.table.granted():
            workload, other = (A, B) if holder < 5 else (B, A)
            assert self.queues[workload].pop(0) == holder, "first come, first served"
            assert not self.queues[other] or self.held(workload) <= self.held(other), "unfair"
            assert slot not in self.holds.values(), "two on one slot"
            assert slot in self.slots, "it is somebody else's now"
            self.holds[holder] = slot
        free = self.slots.difference(self.holds.values())
        assert not free or not any(self.queues.values()), "a slot is left unused"

    def held(self, workload: str) -> int:
        return sum(self.workload(holder) == workload for holder in self.holds)

    @invariant()
    def books_agree(self) -> None:
        for holder in range(10):
            assert self.table.of(holder) == self.holds.get(holder)
        for workload, queue in self.queues.items():
            assert self.table.waiting(workload) == tuple(queue)
            assert self.table.held_seconds(workload) == pytest.approx(self.seconds[workload])


TestTraffic = Traffic.TestCase


@given(
    cpus=st.integers(1, 3),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    seconds=st.sampled_from([0.0, 1.0]),
)
def test_nobody_starves(cpus: int, sizes: list[int], seconds: float) -> None:
    """All want slots all the time, and for equally long: everybody's turn comes round."""
    clock = ManualClock()
    slots = table(cpus, clock)
    workload = [str(name) for name, size in enumerate(sizes) for _ in range(size)]
    for holder, name in enumerate(workload):
        slots.request(name, holder)
    running: list[int] = []
    granted = dict.fromkeys(range(len(workload)), 0)  # the turn at which each was last granted
    a_round = len(sizes) * max(sizes) + cpus
    for turn in range(8 * a_round):
        for holder, _slot in slots.granted():
            running.append(holder)
            granted[holder] = turn
        done = running.pop(0)
        waiting = granted.keys() - {done, *running}
        assert all(turn - granted[holder] <= a_round for holder in waiting)
        clock.advance(seconds)
        slots.release(done)
        slots.request(workload[done], done)


def test_a_workload_gathers_no_rights_while_it_is_away() -> None:
    clock = ManualClock()
    slots = table(1, clock)
    slots.request(B, 10)
    slots.granted()
    slots.release(10)
    slots.request(A, 0)
    slots.granted()
    clock.advance(100.0)
    slots.request(B, 10)
    slots.granted()
    slots.release(0)
    slots.request(A, 0)
    assert slots.granted() == [(10, Slot(0))]
    clock.advance(1.0)
    slots.release(10)
    slots.request(B, 10)
    assert slots.granted() == [(0, Slot(0))], "B is 1 s ahead, not 99 s behind"


def test_a_workload_that_comes_back_keeps_its_handicap() -> None:
    """It came late, was let in as if it had held as long as the other, and must not forget that."""
    clock = ManualClock()
    slots = table(1, clock)
    slots.request(A, 0)
    slots.granted()
    clock.advance(100.0)
    slots.request(B, 10)  # counts as having held 100 s from here on
    slots.granted()
    slots.withdraw(10)
    slots.release(0)
    assert slots.granted() == [], "nobody is there"
    slots.request(C, 20)  # is the first one there, so it begins at 0
    slots.granted()
    clock.advance(50.0)
    slots.request(B, 10)  # the one there has held 50 s: less than B's handicap
    slots.granted()
    slots.release(20)
    slots.request(C, 20)
    assert slots.granted() == [(20, Slot(0))], "C has held 50 s, B counts as 100"


class OneSlot:
    """One slot and several workloads; ``turn`` gives it to whoever is next, for some seconds."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.slots: SlotTable[str] = SlotTable([Slot(0)], self.clock)
        self.holder = ""

    def turn(self, seconds: float, *asks: str) -> str:
        if self.holder:
            self.slots.release(self.holder)
        for workload in asks:
            self.slots.request(workload, workload)
        ((self.holder, _),) = self.slots.granted()
        self.clock.advance(seconds)
        return self.holder


def test_who_comes_back_is_a_little_behind_who_was_there_and_no_more() -> None:
    one = OneSlot()
    assert one.turn(10.0, A) == A
    assert one.turn(20.0, B) == B
    one.slots.request(A, A)
    assert one.slots.granted() == [], "it came back while B had held 20 seconds"
    one.clock.advance(1.0)
    assert one.turn(0.5, B) == A
    assert one.turn(1.0, A) == A, "20.5 and 21 by now"
    assert one.turn(1.0, A) == B


def test_a_handicap_counts_for_those_who_come_later() -> None:
    one = OneSlot()
    assert one.turn(100.0, A) == A
    one.slots.request(B, B)
    assert one.slots.granted() == []
    assert one.turn(1.0) == B, "which counts as if it had held 100 seconds"
    one.slots.request(C, C)
    assert one.slots.granted() == []
    assert one.turn(8.0) == C, "which counts as if it had held 101"
    assert one.turn(1.0, B, C) == B


def test_a_workload_is_crowded_while_anybody_waits() -> None:
    slots = table(1)
    assert not slots.is_crowded(A)
    for holder in (0, 1):
        slots.request(A, holder)
    assert slots.is_crowded(A)
    slots.granted()
    assert slots.is_crowded(A)
    assert not slots.is_crowded(B)
    slots.withdraw(1)
    assert not slots.is_crowded(A)
