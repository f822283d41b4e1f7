"""Windows drawn by the priority of their first row that counts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from buffer_helpers import History, temporary_folder
from sampler_helpers import NAMES, histories

from artos.buffer.samplers.drawn_batch import drawn, sampler_of
from artos.buffer.samplers.patterns import Draw, Sequences
from artos.buffer.samplers.sequences import SequenceSampler

ROWS, LENGTH, BURN_IN, ENVS = 12, 3, 2, 2
STARTS = range(BURN_IN, ROWS - LENGTH + 1)
"""Rows that may be the first to count: so many before them, and enough from there on."""


@pytest.fixture
def history() -> Iterator[History]:
    with temporary_folder() as path:
        yield histories(path, 1, ENVS, 40, ROWS)[0]


def windows_of(history: History, batch: int = 1_000) -> SequenceSampler:
    return SequenceSampler(
        {0: history.block}, NAMES, batch, LENGTH, burn_in=BURN_IN, alpha=0.5, beta=0.7, seed=3
    )


def test_draws_follow_priorities_and_weights_correct_them(history: History) -> None:
    sampler = windows_of(history)
    sampler.sample()
    firsts = np.array([(0, at - BURN_IN, env) for at in STARTS for env in range(ENVS)])
    priorities = np.arange(1.0, len(firsts) + 1) ** 2
    assert sampler.update(firsts, priorities) == len(firsts)
    share = np.sqrt(priorities) / np.sqrt(priorities).sum()
    counts = np.zeros(len(firsts))
    for _ in range(20):
        sample = sampler.sample()
        places = sample["index"][:, 1] * ENVS + sample["index"][:, 2]
        counts += np.bincount(places, minlength=len(firsts))
        weights = (share[places] / share[places].min()) ** -0.7
        np.testing.assert_allclose(sample["weights"], weights, rtol=1e-5)
    np.testing.assert_allclose(counts / counts.sum(), share, atol=3e-3)


def test_new_windows_are_as_urgent_as_any(history: History) -> None:
    """A row becomes a window's first once there are enough rows after it."""
    sampler = windows_of(history, 4)
    index = sampler.sample()["index"].copy()
    sampler.update(index, np.array([1.0, 49.0, 2.0, 0.0]))
    history.write(1)
    sampler.sample()
    leaves = sampler.priorities._tree.leaves.reshape(-1, ENVS)  # type: ignore[union-attr]
    assert set(np.flatnonzero(leaves.any(1))) == {*STARTS, STARTS.stop}
    assert leaves[STARTS.stop].tolist() == [7.0, 7.0]


def test_a_batch_takes_priorities_of_its_windows(history: History) -> None:
    draw = Draw("learner.update", NAMES, Sequences(4, LENGTH, BURN_IN, 1.0, (0.4, 1.0)))
    sampler = sampler_of(draw, {0: history.block}, seed=1)
    batch = drawn(sampler, 0, 0.5)
    assert isinstance(sampler, SequenceSampler)
    assert sampler.priorities is not None
    assert sampler.priorities.beta == pytest.approx(0.7)
    batch.prioritise(np.array([3.0, 3.0, 3.0, 3.0]))
    _, first, env = batch.index[0].tolist()
    assert sampler.priorities._tree.leaves[(first + BURN_IN) * ENVS + env] == 3.0


def test_windows_drawn_uniformly_take_none(history: History) -> None:
    sampler = SequenceSampler({0: history.block}, NAMES, 4, LENGTH, seed=1)
    sample = sampler.sample()
    assert "weights" not in sample
    assert sampler.update(sample["index"], np.ones(4)) == 0
