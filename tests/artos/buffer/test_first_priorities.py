"""Priorities that actors give to new rows, and a beta that follows the run's progress."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from buffer_helpers import new_block, temporary_folder
from hypothesis import given, settings
from hypothesis import strategies as st

from artos.buffer.actor_block import ActorBlock
from artos.buffer.samplers.drawn_batch import drawn, sampler_of
from artos.buffer.samplers.patterns import Draw, Prioritised
from artos.buffer.samplers.prioritised import PrioritisedSampler
from artos.buffer.shm_folder import ShmFolder
from artos.errors import BadRow, NothingToSample
from artos.specs.keys import VERSION_KEY, DataKey

KEYS = (DataKey("rewards"), DataKey("surprise"))
CAPACITY, ENVS, ALPHA = 10, 2, 0.5
Row = tuple[int, int, int]
"""Actor, step, environment."""


def write(block: ActorBlock, priorities: list[float]) -> None:
    """A row for each priority; its second environment has twice the priority of the first."""
    start = block.allocate(len(priorities))
    for step, priority in enumerate(priorities, start):
        block.arrays["surprise"][block.index(step)] = priority, 2 * priority
        block.arrays[VERSION_KEY][block.index(step)] = 0
    block.commit(start + len(priorities))


def readable(block: ActorBlock) -> range:
    return range(max(0, block.headers["rewards"].reserved - CAPACITY), block.written)


class Model:
    """Priorities by row, in a dictionary."""

    def __init__(self, blocks: dict[int, ActorBlock]) -> None:
        self.blocks, self.known = blocks, dict[Row, float]()

    def look(self) -> None:
        """Forget rows that are gone; take in new ones with what is written there."""
        there = {
            (actor, step, env): float(block.arrays["surprise"][block.index(step)][env])
            for actor, block in self.blocks.items()
            for step in readable(block)
            for env in range(ENVS)
        }
        self.known = {row: self.known.get(row, first) for row, first in there.items()}

    def leaves(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        found = np.zeros(len(self.blocks) * CAPACITY * ENVS)
        for (actor, step, env), priority in self.known.items():
            place = (actor * CAPACITY + step % CAPACITY) * ENVS + env
            found[place] = max(priority, 1e-6) ** ALPHA
        return found


AMOUNTS = st.floats(0, 100, width=32)
MOVES = st.tuples(
    st.integers(0, 1), st.one_of(st.lists(AMOUNTS, min_size=1, max_size=9), st.integers(0, 5))
)


@settings(max_examples=50)
@given(st.lists(st.lists(MOVES, min_size=1, max_size=3), max_size=8), st.integers(0, 99))
def test_the_tree_is_that_of_a_plain_model(looks: list[list[Any]], seed: int) -> None:
    """Rows come or, as an actor is placed elsewhere, so many are void and come again."""
    rng, term = np.random.default_rng(seed), 1
    with temporary_folder() as path:
        blocks = {a: new_block(path, KEYS, CAPACITY, actor=a, envs=ENVS) for a in (0, 1)}
        sampler = PrioritisedSampler(
            blocks, ("rewards",), 6, seed=seed, alpha=ALPHA, initial="surprise"
        )
        model = Model(blocks)
        for moves in looks:
            for actor, move in moves:
                if isinstance(move, list):
                    write(blocks[actor], move)
                    continue
                term += 1
                blocks[actor].begin_term(term, max(0, blocks[actor].written - move))
                model.known = {row: p for row, p in model.known.items() if row[0] != actor}
            model.look()
            if not model.known:
                with pytest.raises(NothingToSample):
                    sampler.sample()
                continue
            index = sampler.sample()["index"]
            want = model.leaves()
            np.testing.assert_allclose(sampler.priorities._tree.leaves[: len(want)], want)
            fresh = rng.uniform(0, 50, len(index))
            sampler.update(index, fresh)
            model.known |= dict(zip(map(tuple, index.tolist()), fresh.tolist(), strict=True))


def test_draws_follow_what_the_actor_wrote(folder: ShmFolder) -> None:
    block = new_block(folder.path, KEYS, CAPACITY, envs=ENVS)
    write(block, [0.0, 1.0, 8.0])
    sampler = PrioritisedSampler({0: block}, ("rewards",), 900, seed=1, initial="surprise", alpha=1)
    sample = sampler.sample()
    assert "surprise" not in sample, "it is read, not handed over"
    counts = np.bincount(sample["index"][:, 1], minlength=3)
    np.testing.assert_allclose(counts / 900, [0, 1 / 9, 8 / 9], atol=0.01)


def test_a_row_waits_for_its_priority(folder: ShmFolder) -> None:
    """Keys may arrive one after the other."""
    block = new_block(folder.path, KEYS, CAPACITY, envs=ENVS)
    write(block, [1.0])
    block.reserve(3, ("rewards", "surprise", VERSION_KEY))
    block.commit(3, ("rewards", VERSION_KEY))
    sampler = PrioritisedSampler({0: block}, ("rewards",), 50, seed=1, initial="surprise")
    assert set(sampler.sample()["index"][:, 1].tolist()) == {0}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_what_is_no_priority_is_refused_with_the_row(folder: ShmFolder, bad: float) -> None:
    block = new_block(folder.path, KEYS, CAPACITY, actor=3, envs=ENVS)
    write(block, [1.0, 2.0, bad])
    sampler = PrioritisedSampler({3: block}, ("rewards",), 4, seed=1, initial="surprise")
    with pytest.raises(BadRow, match="surprise") as told:
        sampler.sample()
    assert told.value.step == 2


def test_beta_goes_from_one_to_the_other_over_the_run(folder: ShmFolder) -> None:
    block = new_block(folder.path, KEYS[:1] + KEYS[1:], CAPACITY, envs=ENVS)
    write(block, [1.0, 4.0])
    pattern = Prioritised(8, alpha=1.0, beta=(0.5, 1.0), initial="surprise")
    keys = ("rewards",)
    sampler = PrioritisedSampler(
        {0: block}, keys, 64, seed=1, alpha=1.0, beta=pattern.beta, initial="surprise"
    )
    for progress, beta in ((0.0, 0.5), (0.5, 0.75), (1.0, 1.0)):
        batch = drawn(sampler, 0, progress)
        assert sampler.priorities.beta == beta
        given = np.array([[1.0, 2.0], [4.0, 8.0]])[batch.index[:, 1], batch.index[:, 2]]
        expected = (given / given.min()) ** -beta
        np.testing.assert_allclose(batch.weights, expected, rtol=1e-5)


def test_a_pattern_makes_the_sampler_it_names(folder: ShmFolder) -> None:
    flags = (DataKey(name, (), "bool") for name in ("terminations", "truncations", "valid"))
    keys = (*KEYS, *flags, DataKey("ages", (), "uint8"))
    block = new_block(folder.path, keys, CAPACITY, envs=ENVS)
    pattern = Prioritised(8, alpha=1.0, beta=(0.5, 1.0), initial="surprise")
    sampler = sampler_of(Draw("learner.update", ("rewards",), pattern), {0: block}, 1)
    assert isinstance(sampler, PrioritisedSampler)
    sampler.priorities.anneal(0.5)
    assert sampler.priorities.beta == 0.75
    block.arrays["terminations"][:] = block.arrays["truncations"][:] = False
    block.arrays["valid"][:] = block.arrays["ages"][:] = 1
    write(block, [1.0, 8.0, 1.0])
    sampler.sample()
    assert sampler.priorities._tree.leaves[:6].tolist() == [1.0, 2.0, 8.0, 16.0, 0.0, 0.0]
