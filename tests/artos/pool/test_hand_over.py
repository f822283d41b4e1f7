"""A lease that goes straight to the next one: no decision is made while the device is free."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from artos.clock import ManualClock
from artos.pool.faults import LeaseRevoked
from artos.pool.meter import stopped
from artos.pool.pool import Pool
from artos.pool.records import METER
from artos.pool.resources import Resource
from artos.pool.scheduler import LeaseScheduler
from artos.pool.view import read_pool

DEVICE = Resource("cuda:0", memory_mb=100)


@pytest.fixture
def pools(folder: Path, clock: ManualClock) -> Iterator[list[Pool]]:
    joined = [Pool.join([DEVICE], folder=folder, clock=clock) for _ in range(3)]
    yield joined
    for pool in joined:
        pool.close()


def test_the_only_one_that_waits_has_it_before_anybody_decides(
    pools: list[Pool], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = pools[0].enter("first"), pools[1].enter("second")
    lease, found = first.lease(), list[object]()
    assert second.ask_for_lease(5.0) is None
    clock.advance(2.0)
    books = LeaseScheduler._book_hand_over

    def interrupted(scheduler: LeaseScheduler, seat: int) -> None:
        found.append(second.take_lease())
        books(scheduler, seat)

    monkeypatch.setattr(LeaseScheduler, "_book_hand_over", interrupted)
    lease.close()
    (taken,) = found
    assert repr(taken) == "<Lease of cuda:0>"
    clock.advance(3.0)
    usage = {each.workload: each.held_seconds for each in pools[2].usage()}
    assert usage == {"first": 2.0, "second": 3.0}


def test_it_may_be_over_again_before_it_is_booked(
    pools: list[Pool], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = pools[0].enter("first"), pools[1].enter("second")
    lease = first.lease()
    second.ask_for_lease()
    books = LeaseScheduler._book_hand_over

    def interrupted(scheduler: LeaseScheduler, seat: int) -> None:
        if taken := second.take_lease():
            clock.advance(1.0)
            monkeypatch.setattr(LeaseScheduler, "_book_hand_over", books)
            second._words[METER] = stopped(second._words[METER], second._pool.now())
            assert taken.resource == "cuda:0"
        books(scheduler, seat)

    monkeypatch.setattr(LeaseScheduler, "_book_hand_over", interrupted)
    lease.close()
    assert [each.held_seconds for each in pools[2].usage()] == [0.0, 1.0]
    assert first.ask_for_lease() is not None, "the second one only keeps it"


@pytest.mark.parametrize("also_waits", [False, True])
def test_an_heir_that_died_is_passed_over(
    pools: list[Pool], folder: Path, clock: ManualClock, also_waits: bool
) -> None:
    """It was to get the device when it died; nobody has noticed."""
    first, second, third = (pool.enter(f"w{number}") for number, pool in enumerate(pools))
    lease = first.lease()
    second.ask_for_lease()
    if also_waits:
        third.ask_for_lease()
    pools[1].table.locks.drop(pools[1].member)
    pools[1].forked()
    pools[1].table.close()
    lease.close()
    assert bool(third.take_lease()) == also_waits
    assert [each.holders for each in read_pool(folder, clock).resources] == [int(also_waits)]


def test_of_several_that_wait_the_fairest_gets_it(pools: list[Pool], clock: ManualClock) -> None:
    first, second, third = (pool.enter(f"w{number}") for number, pool in enumerate(pools))
    lease = first.lease()
    for seat in (second, third):
        clock.advance(1.0)
        seat.ask_for_lease()
    lease.close()
    assert second.take_lease()
    assert not third.take_lease()


def test_what_does_not_fit_beside_what_is_left_is_not_promised(pools: list[Pool]) -> None:
    first, second = pools[0].enter("first", "cuda:0"), pools[1].enter("second", "cuda:0")
    lease = first.lease()
    first.set_memory(80, left_mb=40)
    second.set_memory(70)
    second.ask_for_lease()
    lease.close()
    assert second.take_lease() is None
    first.set_memory(80, left_mb=30)
    assert second.take_lease() is not None


def test_what_was_taken_away_is_not_handed_over(pools: list[Pool], clock: ManualClock) -> None:
    first, second, third = (pool.enter(f"w{number}") for number, pool in enumerate(pools))
    late = first.lease(1.0)
    second.ask_for_lease()
    clock.advance(2.0)
    (lease,) = pools[1].granted()
    third.ask_for_lease()
    with pytest.raises(LeaseRevoked):
        late.close()
    assert third.take_lease() is None
    lease.close()
    assert third.take_lease() is not None
