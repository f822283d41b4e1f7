"""What samplers say they drew: whose rows and how old, so that lag is of the rows learned from."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampler_helpers import NAMES, blocks_of, histories

from artos.buffer.samplers.n_step import NStep
from artos.buffer.samplers.prioritised import PrioritisedSampler
from artos.buffer.samplers.sequences import MASK, SequenceSampler
from artos.buffer.samplers.uniform import UniformSampler
from artos.protocol.lag import Drawn, class_name, classes_of
from artos.specs.keys import VERSION_KEY

VERSION = 30
"""Of the learner; the histories hold one row of each version from 0 on."""

SAMPLERS = {
    "uniform": lambda blocks: UniformSampler(blocks, NAMES, 20, seed=1),
    "n-step": lambda blocks: UniformSampler(
        blocks, NAMES, 20, next_keys=NAMES, n_step=NStep(n=2, gamma=0.9), seed=1
    ),
    "prioritised": lambda blocks: PrioritisedSampler(blocks, NAMES, 20, seed=1),
    "sequences": lambda blocks: SequenceSampler(blocks, NAMES, 20, 3, seed=1),
}


@pytest.mark.parametrize("kind", SAMPLERS)
def test_each_row_drawn_is_counted_once_with_its_age(kind, tmp_path):
    blocks = blocks_of(histories(tmp_path, 3, 2, capacity=12, rows=25, final_rows=True))
    drawn = Drawn()
    for block in blocks.values():
        block.drawn = drawn
    sampler = SAMPLERS[kind](blocks)
    drawn.begin(VERSION)
    expected: dict[int, list[int]] = {}
    for _ in range(300):  # more than it keeps without counting
        sample = sampler.sample()
        versions = sample[VERSION_KEY].reshape(20, -1)
        counted = sample.get(MASK, np.ones(versions.shape, bool))
        for actor, row, mask in zip(sample["index"][:, 0], versions, counted, strict=True):
            expected.setdefault(int(actor), []).extend((VERSION - row[mask]).tolist())
    found = {lag.actor: lag for lag in drawn.take()}
    assert found.keys() == expected.keys() == {0, 1, 2}
    for actor, lags in expected.items():
        lag = found[actor]
        assert (lag.rows, lag.total, lag.largest) == (len(lags), sum(lags), max(lags))
        spread = Counter(classes_of(np.array(lags)).tolist())
        assert {n: rows for n, rows in enumerate(lag.classes) if rows} == spread


def test_what_was_drawn_for_the_last_update_is_not_counted_for_the_next(tmp_path):
    blocks = blocks_of(histories(tmp_path, actors=1, envs=1, capacity=12, rows=10))
    drawn = blocks[0].drawn = Drawn()
    sampler = SAMPLERS["uniform"](blocks)
    drawn.begin(VERSION)
    sampler.sample()
    drawn.begin(VERSION)
    assert drawn.take() == ()
    sampler.sample()
    assert [lag.rows for lag in drawn.take()] == [20]


def test_rows_newer_than_the_learner_are_not_behind(tmp_path):
    blocks = blocks_of(histories(tmp_path, actors=1, envs=1, capacity=12, rows=10))
    drawn = blocks[0].drawn = Drawn()
    drawn.begin(0)
    SAMPLERS["uniform"](blocks).sample()
    assert drawn.take()[0].classes == (20,)


@given(lag=st.integers(0, 2**50))
def test_a_lag_lies_in_the_class_that_bears_its_name(lag):
    name = class_name(int(classes_of(np.array([lag]))[0]))
    first, _, last = name.partition("-")
    assert int(first) <= lag <= int(last or first)
