"""Memory of a resource: what its holders need, and what the others have left there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from artos.clock import ManualClock
from artos.pool.pool import Pool
from artos.pool.resources import Resource
from artos.pool.view import PoolView, read_pool

GPU, TOTAL = "cuda:0", 140


class Machine:
    """A pool with one device, which one at a time may hold, or as many as ``share``."""

    def __init__(self, folder: Path, clock: ManualClock, share: int = 1) -> None:
        self.folder, self.clock = folder, clock
        device = Resource(GPU, share=share, memory_mb=TOTAL)
        self.pool = Pool.join([device], folder=folder, clock=clock)
        self.first, self.second = (self.pool.enter(name, GPU) for name in ("first", "second"))

    def look(self) -> PoolView:
        return read_pool(self.folder, self.clock)


@pytest.fixture
def machine(folder: Path, clock: ManualClock) -> Iterator[Machine]:
    made = Machine(folder, clock)
    with made.pool:
        yield made


def test_what_an_idle_seat_has_left_is_not_there_for_others(machine: Machine) -> None:
    machine.first.set_memory(100, left_mb=60)
    machine.second.set_memory(100)
    assert machine.second.ask_for_lease() is None
    (waiting,), (device,) = machine.look().queue, machine.look().resources
    assert waiting.why == "memory"
    assert (device.memory_taken_mb, device.memory_idle_mb) == (60, 60)
    assert machine.pool.lacking_mb(GPU, now=True) == 20
    machine.first.set_memory(100, left_mb=50)
    assert machine.second.take_lease() is None
    machine.first.set_memory(100, left_mb=40)
    assert machine.second.take_lease() is not None, "nobody had to ask again"
    device = machine.look().resources[0]
    assert (device.memory_taken_mb, device.memory_idle_mb) == (140, 40)


def test_what_a_seat_has_left_itself_is_part_of_what_it_needs(machine: Machine) -> None:
    machine.first.set_memory(TOTAL, left_mb=100)
    with machine.first.lease(wait=0.0):
        (device,) = machine.look().resources
        assert (device.memory_taken_mb, device.memory_idle_mb) == (TOTAL, 0)
        assert machine.pool.lacking_mb(GPU, now=True) == 0


def test_two_hold_a_device_at_once_where_both_fit_beside_a_third(
    folder: Path, clock: ManualClock
) -> None:
    machine = Machine(folder, clock, share=2)
    with machine.pool:
        idle = machine.pool.enter("idle", GPU)
        idle.set_memory(0, left_mb=30)
        machine.first.set_memory(60, left_mb=20)
        machine.second.set_memory(60)
        assert machine.first.ask_for_lease() is not None
        assert machine.second.ask_for_lease() is None
        assert machine.pool.lacking_mb(GPU, now=True) == 10
        idle.set_memory(0, left_mb=20)
        assert machine.second.take_lease() is not None


@pytest.mark.parametrize("how", ["closes", "dies"])
def test_what_a_seat_has_left_is_free_when_it_is_gone(
    how: str, machine: Machine, folder: Path, clock: ManualClock
) -> None:
    machine.second.set_memory(TOTAL)
    other = Pool.join(folder=folder, clock=clock)
    seat = other.enter("other", GPU)
    seat.set_memory(60, left_mb=50)
    assert machine.second.ask_for_lease() is None
    if how == "closes":
        seat.close()
        other.close()
    else:
        other.table.locks.drop(other.member)  # as the kernel does when its process is killed
        other.forked()
        other.table.close()
    assert machine.pool.granted()
    assert machine.second.holds == GPU


def test_who_needs_more_than_before_is_admitted_anew(machine: Machine) -> None:
    machine.first.set_memory(60)
    machine.second.set_memory(80, left_mb=70)
    machine.first.lease(wait=0.0).close()
    machine.first.lease(wait=0.0).close()  # it has kept the device
    machine.first.set_memory(100)
    assert machine.first.ask_for_lease() is None, "30 MB are lacking"
    machine.second.set_memory(80, left_mb=0)
    assert machine.first.take_lease() is not None


def test_a_lease_that_grew_is_not_renewed_unseen(machine: Machine) -> None:
    machine.second.set_memory(80, left_mb=70)
    lease = machine.first.lease(wait=0.0)
    machine.first.set_memory(100, left_mb=20)
    assert lease.renew_or_queue() is None
    machine.second.close()
    assert machine.first.take_lease() is not None


def test_what_is_lacking_for_any_seat_to_hold(machine: Machine) -> None:
    lacking = machine.pool.lacking_mb
    machine.first.set_memory(80, left_mb=60)
    assert lacking(GPU) == 0
    machine.second.set_memory(110, left_mb=50)
    assert lacking(GPU) == 30, "60 + 110 + what is left of the second"
    assert lacking(GPU, now=True) == 0, "nobody waits"
    lease = machine.first.lease(wait=0.0)
    machine.second.ask_for_lease()
    assert lacking(GPU, now=True) == 0, "what it waits for is a turn"
    lease.close()
    assert machine.second.take_lease() is None
    assert lacking(GPU, now=True) == 30
    assert lacking("cpu:a") == 0


def test_what_a_workload_needed_last_is_remembered_for_its_next_process(machine: Machine) -> None:
    assert machine.first.remembered_mb == 0
    machine.first.set_memory(70, left_mb=50)
    machine.first.close()
    again = machine.pool.enter("first", GPU)
    assert again.remembered_mb == 70
    assert machine.look().resources[0].memory_taken_mb == 0


def test_a_seat_knows_whether_anybody_may_have_waited(machine: Machine) -> None:
    machine.first.set_memory(60)
    machine.first.lease(wait=0.0).close()
    assert not machine.first.may_be_wanted
    machine.second.lease(wait=0.0).close()
    assert machine.first.may_be_wanted
