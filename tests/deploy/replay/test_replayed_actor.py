"""An actor of a replay whose node was lost within a round, or that goes back to rows it had."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers import SUPPORT
from numpy.typing import NDArray

from artos.runs.run_memory import RunMemory
from artos.specs.configuration import Configuration
from artos.specs.members import ACTORS, Member
from deploy.replay.actors import ReplayedActor
from deploy.replay.difference import Differs, Over
from deploy.replay.script import Fired, Item, Round, Script, Started
from deploy.replay.versions import Versions
from head.run.concerns.recording import large_sums
from head.run.request import reference_of
from triggers.registration import prepare

CAPACITY, KEPT = 24, 20
MOST_SUM = 0xFFFF
FIRST = Round(1, 16, True, 0, 0, 0.0, 0, None)
SECOND = Round(2, 32, True, 0, 16, 0.0, 0, None)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunMemory]:
    yield from node_of("CartPole-v1", tmp_path)


@pytest.fixture
def pictures(tmp_path: Path) -> Iterator[RunMemory]:
    """That of a run whose observations are large."""
    yield from node_of("late:Pictures", tmp_path)


def node_of(env: str, folder: Path) -> Iterator[RunMemory]:
    settings = {"env": env, "actors": 1, "envs": 1, "steps": 16}
    plan = prepare(reference_of("ppo", settings, SUPPORT), 1, deadline=60.0).plan
    with RunMemory(msgspec.structs.replace(plan, capacity=CAPACITY), "lost", folder) as made:
        slot = made.weights.allocate()
        slot.arrays["params"][:] = 0.0
        made.weights.commit(slot, 0)
        yield made


def actor_of(node: RunMemory, items: list[Item], keep: int | None = None) -> ReplayedActor:
    """One that is to do that."""
    fired = Fired("actors.sample", ())
    script = Script({0: deque(items)}, {1: fired, 2: fired}, {0: Configuration()})
    versions = Versions(node.weights, script.bound())
    versions.published()
    return ReplayedActor(node, 0, script, {node.plan.learner: versions}, keep=keep)


def done(
    node: RunMemory, items: list[Item], rows: int, keep: int | None = None
) -> dict[str, NDArray[Any]]:
    """What is in the block when an actor has done all of that up to a row, and gone back."""
    block = node.blocks[0]
    block.commit(0)
    actor = actor_of(node, items, keep)
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


def test_it_goes_on_with_what_it_held_when_the_run_was_saved(node: RunMemory) -> None:
    """In mid-episode, by the random streams and the version of before, though it is set up anew."""
    on = SECOND._replace(bind=False)
    whole = done(node, [Started(1), FIRST, on], 32)
    anew = done(node, [Started(1), FIRST, Started(2), on], 32)
    assert not np.array_equal(anew["observations"][16:], whole["observations"][16:])
    done(node, [Started(1), FIRST], 16)
    path = node.site.held_path(Member(ACTORS, 0))
    first = actor_of(node, [Started(1), FIRST])
    node.blocks[0].commit(0)
    first.hand_over(path)
    first.close()
    assert node.blocks[0].written == 16
    second = actor_of(node, [Started(2), on])
    second.reach(32)
    second.close()
    assert not path.exists(), "it goes on once"
    for name, array in node.blocks[0].arrays.items():
        assert np.array_equal(array, whole[name])


def test_who_was_not_started_holds_nothing(node: RunMemory) -> None:
    with pytest.raises(Over, match="how actor 0 was started"):
        actor_of(node, []).hand_over(node.site.held_path(Member(ACTORS, 0)))


def summed(node: RunMemory) -> tuple[bytes, bytes]:
    """The sums of the large values of two rounds."""
    done(node, [Started(1), FIRST], 16)
    first = large_sums(node.blocks[0], 0, 16)
    done(node, [Started(1), FIRST, SECOND], 32)
    return first, large_sums(node.blocks[0], 16, 32)


def changed(sums: bytes, row: int) -> bytes:
    """What would have been recorded if that row, and all after it, had been others."""
    return sums[: 2 * row] + bytes(each ^ 255 for each in sums[2 * row :])


@pytest.mark.parametrize("small", [None, MOST_SUM + 1], ids=["alone", "with_small_ones"])
@pytest.mark.parametrize("row", [0, 5, 15])
def test_a_large_value_that_differs_is_named_with_its_step(
    pictures: RunMemory, row: int, small: int | None
) -> None:
    first, second = summed(pictures)
    assert len(first) == len(second) == 2 * 16
    another = SECOND._replace(large=changed(second, row), rows=small)
    items = [Started(1), FIRST._replace(large=first), another]
    with pytest.raises(Differs) as found:
        done(pictures, items, 32)
    assert str(found.value) == f"actor 0 wrote other rows in step {16 + row}"


def test_of_rounds_without_sums_a_difference_may_be_anywhere(pictures: RunMemory) -> None:
    _, second = summed(pictures)
    items = [Started(1), FIRST, SECOND._replace(large=changed(second, 0))]
    with pytest.raises(Differs) as found:
        done(pictures, items, 32)
    assert str(found.value) == "actor 0 wrote other rows in steps 0 to 16"


def test_of_a_round_whose_node_was_lost_sums_are_of_the_rows_that_are_left(
    pictures: RunMemory,
) -> None:
    _, second = summed(pictures)
    left = SECOND._replace(kept=KEPT, large=second[: 2 * (KEPT - 16)])
    done(pictures, [Started(1), FIRST, left], KEPT)
    assert pictures.blocks[0].written == KEPT


def test_small_values_have_no_sums_by_step(node: RunMemory) -> None:
    done(node, [Started(1), FIRST], 16)
    assert large_sums(node.blocks[0], 0, 16) == b""
