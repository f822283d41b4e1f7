"""The memory of a device that a server leases: what it has there is not to be had by others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from artos.clock import ManualClock
from artos.pool.pool import Pool
from artos.pool.resources import Resource
from artos.runtime.served_memory import ServedMemory

BIG, CONTEXT = 200, 20


class Stage:
    """A server in a pool, and a learner of the same run that wants the same device."""

    def __init__(self, folder: Path) -> None:
        join = partial(Pool.join, folder=folder, clock=ManualClock(1000.0))
        self.pool, self.others = join([Resource("cuda:0", memory_mb=BIG)]), join()
        self.seat = self.pool.enter("run", ["cuda:0"])
        self.peak = self.kept = 40
        self.dropped = 0
        device: Any = SimpleNamespace(
            context_bytes=CONTEXT << 20,
            peak_bytes=lambda: self.peak << 20,
            taken_bytes=lambda held: self.kept << 20,
            drop_caches=self._drop,
        )
        self.memory = ServedMemory(self.pool, self.seat, device, BIG)
        self.memory.tell()

    def _drop(self) -> None:
        self.dropped += 1
        self.kept = 16

    def answer(self) -> None:
        with self.seat.lease(60.0):
            self.memory.answered()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path / "pool")
    yield made
    made.pool.close()
    made.others.close()


@pytest.mark.parametrize(("needed", "fits"), [(BIG - 60, True), (BIG - 59, False)])
def test_what_it_keeps_is_not_to_be_had(stage: Stage, needed: int, fits: bool) -> None:
    learner = stage.others.enter("run", ["cuda:0"], memory_mb=needed)
    assert (learner.ask_for_lease() is not None) == fits


def test_who_waits_for_it_is_told_whose_it_is_and_gets_what_can_be_given(stage: Stage) -> None:
    learner = stage.others.enter("run", ["cuda:0"], memory_mb=BIG - CONTEXT - 16)
    assert learner.ask_for_lease() is None
    assert learner.shortage is not None
    stage.memory.answered()  # the batch that was under way
    assert stage.dropped == 1
    assert learner.take_lease() is not None, "caches are gone, weights stay"


def test_a_larger_batch_asks_for_more_and_a_smaller_one_for_no_less(stage: Stage) -> None:
    stage.answer()
    assert stage.seat.memory_mb == CONTEXT + 50
    stage.peak = 100
    stage.answer()
    assert stage.seat.memory_mb == CONTEXT + 125
    stage.peak = 80
    stage.answer()
    assert stage.seat.memory_mb == CONTEXT + 125
    stage.peak = 1000
    stage.answer()
    assert stage.seat.memory_mb == BIG, "never more than there is"
    assert stage.dropped == 0, "nobody waits"


def test_the_learner_of_its_run_remembers_its_own_need(stage: Stage) -> None:
    """A process that follows it is limited to that."""
    learner = stage.others.enter("run", ["cuda:0"])
    learner.set_memory(150)
    stage.peak = 60
    stage.answer()
    assert learner.remembered_mb == 150
