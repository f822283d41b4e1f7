"""How many threads a learner uses beside others: one, and as many more as there are free cores."""

from __future__ import annotations

import pytest

from artos.runtime.shared_cores import SharedCores, threads_for
from artos.system.free_cpus import Measured, Share


class Machine:
    """Others use ``others`` CPUs of it, also while the learner updates."""

    def __init__(self, cpus: float = 4, others: float = 0.0) -> None:
        self.others, self.looks = others, 0
        self.now = self._used_by_others = 0.0
        self._cpus, self.used = cpus, list[int]()
        self.cores = SharedCores(4, self.used.append, self._measured, lambda: self.now)

    def _measured(self) -> Measured:
        self.looks += 1
        return Measured(self.now, 0.0, (Share(self._cpus, self._used_by_others),))

    def passes(self, seconds: float, others: float | None = None) -> None:
        self.now += seconds
        self._used_by_others += seconds * (self.others if others is None else others)

    def update(self, steps: int = 10, seconds: float = 0.06) -> None:
        self.cores.begin()
        for _ in range(steps):
            self.passes(seconds)
            self.cores.look()


@pytest.mark.parametrize(
    ("free", "now", "threads"),
    [
        (2.0, 1, 2),
        (1.8, 1, 2),
        (1.7, 1, 1),
        (1.7, 2, 2),
        (1.5, 2, 1),
        (0.0, 2, 1),
        (-0.3, 1, 1),
        (9.0, 1, 8),
        (15.0, 8, 8),
        (5.7, 8, 6),
    ],
)
def test_it_is_what_others_leave_with_some_patience(free: float, now: int, threads: int) -> None:
    assert threads_for(free, now, most=8) == threads


def test_it_begins_with_one_and_has_all_while_nobody_else_computes() -> None:
    machine = Machine()
    assert machine.used == [1]
    machine.update()
    assert machine.used == [1, 4]
    machine.update(100)
    assert machine.used == [1, 4]


def test_beside_a_busy_process_it_has_the_others() -> None:
    machine = Machine(others=1.0)
    machine.update()
    assert machine.cores.threads == 3


def test_in_the_midst_of_a_long_update_it_makes_room() -> None:
    machine = Machine()
    machine.update()
    machine.cores.begin()
    machine.others = 4.0
    for _ in range(10):
        machine.passes(0.06)
        machine.cores.look()
    assert machine.cores.threads == 1


def test_who_computes_between_updates_does_not_count() -> None:
    machine = Machine()
    for _ in range(5):
        machine.passes(1.0, others=4.0)
        machine.update(2)
    assert machine.cores.threads == 4


def test_a_quota_that_is_no_whole_number_is_not_exceeded() -> None:
    machine = Machine(cpus=1.5)
    machine.update(100)
    assert machine.used == [1]


def test_steps_that_are_short_are_hardly_looked_at() -> None:
    machine = Machine()
    machine.update(steps=1000, seconds=0.0001)
    assert machine.looks < 10
