"""A pool among members of one process: who gets what, and what is counted."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from artos.clock import ManualClock
from artos.pool.effects import Revoked
from artos.pool.faults import (
    LeasedTwice,
    LeaseRevoked,
    LeaseTimeout,
)
from artos.pool.meter import started
from artos.pool.pool import Pool
from artos.pool.records import SeatRecord
from artos.pool.resources import Resource
from artos.pool.scheduler import LeaseScheduler
from artos.pool.seat import Lease
from artos.pool.table import Table

DEVICE = Resource("cuda:0")


def test_who_asks_gets_it_and_the_next_one_waits(folder: Path, clock: ManualClock) -> None:
    one = Pool.join([DEVICE], folder=folder, clock=clock)
    with one, Pool.join(folder=folder, clock=clock) as two:
        first, second = one.enter("first"), two.enter("second")
        with first.lease() as lease:
            assert lease.resource == "cuda:0"
            assert not lease.wanted
            assert second.ask_for_lease() is None
            assert lease.wanted
            assert two.granted() == []
        (taken,) = two.granted()
        assert taken.resource == "cuda:0"
        assert first.ask_for_lease() is None
        taken.close()
        assert [each.resource for each in one.granted()] == ["cuda:0"]


def test_while_nobody_waits_no_lock_is_taken(
    folder: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Pool.join([DEVICE], folder=folder, clock=clock) as pool:
        seat = pool.enter("w")
        seat.lease().close()
        with monkeypatch.context() as patched:
            patched.delattr(Table, "change")
            for _ in range(3):
                with seat.lease(5.0) as lease:
                    clock.advance(1.0)
                    assert lease.resource == "cuda:0"
        usage = pool.usage()
    assert [(each.workload, each.held_seconds) for each in usage] == [("w", 3.0)]


def test_seats_that_use_it_in_turn_keep_theirs_while_there_is_enough(
    folder: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Pool.join([DEVICE, Resource("cuda:1")], folder=folder, clock=clock) as pool:
        seats = [pool.enter("w"), pool.enter("w")]
        had = []
        for seat in seats:
            with seat.lease() as lease:
                had.append(lease.resource)
        assert len({*had}) == 2
        with monkeypatch.context() as patched:
            patched.delattr(Table, "change")
            for _ in range(3):
                for seat, resource in zip(seats, had, strict=True):
                    with seat.lease(5.0) as lease:
                        assert lease.resource == resource
        with seats[0].lease(), Pool.join(folder=folder, clock=clock) as other:
            assert other.enter("x").lease().resource == had[1], "what is kept only is anybody's"


def test_what_a_seat_keeps_is_anybodys(folder: Path, clock: ManualClock) -> None:
    with Pool.join([DEVICE], folder=folder, clock=clock) as pool:
        first, second = pool.enter("first"), pool.enter("second")
        first.lease().close()
        with second.lease() as lease:
            assert first.ask_for_lease() is None, "it must not use again what was taken from it"
            assert lease.wanted
        assert first.take_lease() is not None


@pytest.mark.parametrize(
    ("step", "beginning"),
    [
        ("_until", True),
        ("started", True),
        ("fence", True),
        ("stopped", False),
        ("fence", False),
    ],
)
def test_who_asks_while_another_needs_no_lock(
    folder: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, step: str, beginning: bool
) -> None:
    """At each step of beginning and of ending a lease: one of the two has it, never both."""
    one = Pool.join([DEVICE], folder=folder, clock=clock)
    with one, Pool.join(folder=folder, clock=clock) as two:
        quick, other = one.enter("quick"), two.enter("other")
        lease: Lease | None = quick.lease()
        if lease and beginning:
            lease.close()
        name = f"artos.pool.seat.{step}"
        was = getattr(sys.modules["artos.pool.seat"], step)

        def interrupted(*arguments: int) -> object:
            monkeypatch.undo()
            other.ask_for_lease()
            return was(*arguments)

        monkeypatch.setattr(name, interrupted)
        if beginning:
            lease = quick.ask_for_lease()
            assert bool(lease) != bool(other.holds)
        elif lease:
            lease.close()
            assert other.holds
        if lease:
            lease.close()
        two.granted()
        assert other.holds == "cuda:0"
        other.close()
        quick.close()
        assert quick._pool.usage()[0].held_seconds == 0.0


def test_who_begins_as_another_had_its_turn_gets_the_next_one(
    folder: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes into its lease words what it read before they were cleared."""
    with Pool.join([DEVICE], folder=folder, clock=clock) as pool:
        quick, other = pool.enter("quick"), pool.enter("other")
        with quick.lease():
            clock.advance(1.0)

        def interrupted(meter: int, now: int) -> int:
            monkeypatch.undo()
            other.lease().close()
            other.close()
            return started(meter, now)

        monkeypatch.setattr("artos.pool.seat.started", interrupted)
        assert quick.ask_for_lease() is not None


def test_what_is_found_idle_cannot_be_used_again_without_the_lock(
    folder: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Pool.join([DEVICE], folder=folder, clock=clock) as pool:
        quick, other = pool.enter("quick"), pool.enter("other")
        quick.lease().close()
        looked, began = LeaseScheduler._still_holds, list[bool]()

        def interrupted(
            scheduler: LeaseScheduler, number: int, record: SeatRecord, wanted: set[int]
        ) -> bool:
            holds = looked(scheduler, number, record, wanted)
            began.append(quick._may_use_kept(0.0))
            return holds

        monkeypatch.setattr(LeaseScheduler, "_still_holds", interrupted)
        assert other.ask_for_lease() is not None
        assert began == [False]


def test_a_wait_that_ends_says_who_holds_what(folder: Path) -> None:
    with Pool.join([DEVICE], folder=folder) as pool:
        with pool.enter("holder").lease():
            late = pool.enter("late")
            with pytest.raises(LeaseTimeout, match=f"cuda:0 by 'holder' .process {os.getpid()}"):
                late.lease(wait=0.01)
        late.lease(wait=0.0).close()


def test_a_seat_has_one_lease_at_a_time(folder: Path, clock: ManualClock) -> None:
    with Pool.join([DEVICE], folder=folder, clock=clock) as pool:
        seat, other = pool.enter("w"), pool.enter("w")
        with seat.lease():
            with pytest.raises(LeasedTwice, match="has one"):
                seat.lease()
            other.ask_for_lease()
            with pytest.raises(LeasedTwice, match="waits for one"):
                other.lease()
        assert other.withdraw() is not None, "it came just then"


def test_within_a_workload_they_go_in_order(folder: Path, clock: ManualClock) -> None:
    with Pool.join([DEVICE], folder=folder, clock=clock) as pool:
        lease, seats = pool.enter("w").lease(), [pool.enter("w") for _ in range(4)]
        order = [2, 0, 3, 1]
        for number in order:
            clock.advance(1.0)
            seats[number].ask_for_lease()
        for number in order:
            clock.advance(1.0)
            lease.close()
            assert [bool(seat.holds) for seat in seats] == [each == number for each in range(4)]
            (lease,) = pool.granted()


def test_who_withdraws_is_passed_over(folder: Path, clock: ManualClock) -> None:
    with Pool.join([DEVICE], folder=folder, clock=clock) as pool:
        holder, waiting, next_one = (pool.enter(name) for name in "abc")
        lease = holder.lease()
        waiting.ask_for_lease()
        next_one.ask_for_lease()
        assert waiting.withdraw() is None
        lease.close()
        assert waiting.take_lease() is None
        assert next_one.take_lease() is not None


def test_weights_act_when_leases_are_renewed(folder: Path, clock: ManualClock) -> None:
    """Two workloads with one seat each, three seconds to one."""
    with Pool.join([DEVICE], folder=folder, clock=clock) as pool:
        seats = {"heavy": pool.enter("heavy", weight=3.0), "light": pool.enter("light")}
        held = {"heavy": 0, "light": 0}
        lease = seats["heavy"].lease()
        seats["light"].ask_for_lease()
        for _ in range(400):
            clock.advance(1.0)
            (name,) = (name for name, seat in seats.items() if seat.holds)
            held[name] += 1
            taken = (
                lease.renew_or_queue()
                or seats["light" if name == "heavy" else "heavy"].take_lease()
            )
            assert taken is not None
            lease = taken
    assert held == {"heavy": 300, "light": 100}


def test_a_lease_beyond_its_deadline_is_taken_away_once_somebody_waits(
    folder: Path, clock: ManualClock
) -> None:
    revoked: list[Revoked] = []
    with Pool.join([DEVICE], folder=folder, clock=clock, on_revoked=revoked.append) as pool:
        greedy, patient = pool.enter("greedy"), pool.enter("patient")
        lease = greedy.lease(seconds=10.0)
        clock.advance(11.0)
        lease.check()
        assert patient.ask_for_lease() is not None, "nobody was waiting until now"
        with pytest.raises(LeaseRevoked, match=r"'greedy' lost cuda:0: .* more than 10 s"):
            lease.check()
        with pytest.raises(LeaseRevoked):
            lease.close()
        assert [(r.workload, r.resource, r.pid) for r in revoked] == [
            ("greedy", "cuda:0", os.getpid())
        ]
        assert revoked[0].overdue_seconds == pytest.approx(1.0)
        assert greedy.ask_for_lease() is None, "it queues like everybody"
        usage = {each.workload: each.held_seconds for each in pool.usage()}
        assert usage == {"greedy": 11.0, "patient": 0.0}


def test_a_late_holder_is_left_alone_by_those_who_want_something_else(
    folder: Path, clock: ManualClock
) -> None:
    resources = [Resource("cpu:a"), Resource("cpu:b"), Resource("slot:0", "slot")]
    with Pool.join(resources, folder=folder, clock=clock) as pool:
        late = pool.enter("late", "cpu:a").lease(1.0)
        others = [pool.enter("other", what).lease() for what in ("cpu:b", "slot")]
        waiting = [pool.enter("waits", what) for what in ("cpu:b", "slot")]
        assert [seat.ask_for_lease() for seat in waiting] == [None, None]
        clock.advance(2.0)
        assert pool.granted() == []
        assert pool.patience is None, "nobody waits for what is late"
        assert [each.wanted for each in (late, *others)] == [False, True, True]
        late.check()
        assert pool.enter("waits", "cpu:a").ask_for_lease() is not None
        with pytest.raises(LeaseRevoked):
            late.check()


def test_event_loops_are_told_when_to_look(folder: Path, clock: ManualClock) -> None:
    with Pool.join([DEVICE], folder=folder, clock=clock) as pool:
        late, seat = pool.enter("late").lease(3.0), pool.enter("w")
        assert pool.patience is None
        assert seat.ask_for_lease() is None
        assert pool.patience == 3.0
        clock.advance(3.5)
        assert pool.patience == 0.0
        assert [each.resource for each in pool.granted()] == ["cuda:0"]
        assert pool.patience is None
        with pytest.raises(LeaseRevoked):
            late.close()


def test_a_body_that_fails_says_so_whatever_happened_to_its_lease(
    folder: Path, clock: ManualClock
) -> None:
    with Pool.join([DEVICE], folder=folder, clock=clock) as pool:
        greedy, patient = pool.enter("greedy"), pool.enter("patient")
        with pytest.raises(ZeroDivisionError), greedy.lease(seconds=1.0):  # noqa: PT012
            clock.advance(2.0)
            patient.ask_for_lease()
            raise ZeroDivisionError


def test_memory_and_share(folder: Path, clock: ManualClock) -> None:
    resources = [Resource("cuda:0", share=3, memory_mb=100)]
    with Pool.join(resources, folder=folder, clock=clock) as pool:
        big, middle, small = (
            pool.enter(name, memory_mb=need) for name, need in (("b", 70), ("m", 50), ("s", 30))
        )
        first = big.lease()
        assert middle.ask_for_lease() is None
        assert small.ask_for_lease() is not None
        clock.advance(2.0)
        first.close()
        assert middle.take_lease() is not None
        usage = {each.workload: each for each in pool.usage()}
    assert (usage["m"].waits, usage["m"].waited_for_memory_seconds) == (1, 2.0)
    assert usage["m"].waited_for_turn_seconds == 0.0


def test_slots_and_devices_are_accounts_of_their_own(folder: Path, clock: ManualClock) -> None:
    resources = [DEVICE, Resource("slot:0", "slot"), Resource("slot:1", "slot")]
    with Pool.join(resources, folder=folder, clock=clock) as pool:
        device, slots = pool.enter("w"), [pool.enter("w", "slot") for _ in range(3)]
        got = [each.ask_for_lease() for each in (device, *slots)]
        assert [each and each.resource for each in got] == ["cuda:0", "slot:0", "slot:1", None]
        clock.advance(1.0)
        usage = {each.kind: each.held_seconds for each in pool.usage()}
    assert usage == {"device": 1.0, "slot": 2.0}


def test_one_resource_may_be_asked_for_by_name(folder: Path, clock: ManualClock) -> None:
    with Pool.join([Resource("cpu:a"), Resource("cpu:b")], folder=folder, clock=clock) as pool:
        lease = pool.enter("w", "cpu:b").lease()
        assert lease.resource == "cpu:b"
        assert pool.enter("v", "cpu:b").ask_for_lease() is None
