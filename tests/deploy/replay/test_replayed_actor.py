"""An actor of a replay whose node was lost within a round, or that goes back to rows it had."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from artos.runs.run_memory import RunMemory
from artos.specs.configuration import Configuration
from deploy.replay.actors import ReplayedActor
from deploy.replay.script import Fired, Item, Round, Script, Started
from deploy.replay.versions import Versions
from head.run.request import reference_of
from triggers.registration import prepare

CAPACITY, KEPT = 24, 20
FIRST = Round(1, 16, True, 0, 0, 0.0, 0, None)
SECOND = Round(2, 32, True, 0, 16, 0.0, 0, None)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunMemory]:
    settings = {"env": "CartPole-v1", "actors": 1, "envs": 1, "steps": 16}
    plan = prepare(reference_of("ppo", settings, tmp_path), 1, deadline=60.0).plan
    with RunMemory(msgspec.structs.replace(plan, capacity=CAPACITY), "lost", tmp_path) as made:
        slot = made.weights.allocate()
        slot.arrays["params"][:] = 0.0
        made.weights.commit(slot, 0)
        yield made


def done(
    node: RunMemory, items: list[Item], rows: int, keep: int | None = None
) -> dict[str, NDArray[Any]]:
    """What is in the block when an actor has done all of that up to a row, and gone back."""
    block = node.blocks[0]
    block.commit(0)
    fired = Fired("actors.sample", ())
    script = Script({0: deque(items)}, {1: fired, 2: fired}, {0: Configuration()})
    versions = Versions(node.weights, script.bound())
    versions.published()
    actor = ReplayedActor(node, 0, script, {node.plan.learner: versions}, keep=keep)
    actor.reach(rows)
    actor.go_back()
    actor.close()
    return {name: array.copy() for name, array in block.arrays.items()}


def test_rows_up_to_where_they_were_left_are_those_of_its_round(node: RunMemory) -> None:
    """Rows that the others of the round overwrote are there again."""
    before = done(node, [Started(1), FIRST], 16)
    whole = done(node, [Started(1), FIRST, SECOND], 32)
    left = done(node, [Started(1), FIRST, SECOND._replace(kept=KEPT)], KEPT)
    assert node.blocks[0].written == KEPT
    for name, array in left.items():
        assert np.array_equal(array[16:KEPT], whole[name][16:KEPT])
        assert np.array_equal(array[:8], before[name][:8])


def test_it_goes_back_to_the_rows_that_a_resumed_run_began_with(node: RunMemory) -> None:
    """Of rows that later ones took the place of there are as many as the block holds."""
    before = done(node, [Started(1), FIRST], 16)
    whole = done(node, [Started(1), FIRST, SECOND], 32)
    back = done(node, [Started(1), FIRST, SECOND], 32, keep=KEPT)
    block = node.blocks[0]
    assert (block.written, block.oldest()) == (KEPT, 0)
    for name, array in back.items():
        assert np.array_equal(array[:16], before[name][:16])
        assert np.array_equal(array[16:KEPT], whole[name][16:KEPT])
    assert not np.array_equal(whole["observations"][:8], before["observations"][:8])
