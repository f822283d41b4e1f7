"""Prioritised replay with alpha = 0 is uniform replay, whatever priorities were given."""

from __future__ import annotations

import numpy as np
import pytest
from buffer_helpers import temporary_folder
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sampler_helpers import NAMES, blocks_of, histories

from artos.buffer.samplers.prioritised import PrioritisedSampler
from artos.buffer.samplers.uniform import UniformSampler
from artos.buffer.shm_folder import ShmFolder

ROWS = 20_000


def counted(sampler: UniformSampler | PrioritisedSampler) -> dict[tuple[int, ...], int]:
    """How often each row was drawn."""
    drawn: list[NDArray[np.int64]] = []
    rng = np.random.default_rng(1)
    while sum(map(len, drawn)) < ROWS:
        sample = sampler.sample()
        drawn.append(sample["index"].copy())
        if isinstance(sampler, PrioritisedSampler):
            assert (sample["weights"] == 1).all()
            sampler.update(sample["index"], rng.exponential(size=len(sample["index"])) ** 3)
    rows, counts = np.unique(np.concatenate(drawn), axis=0, return_counts=True)
    return {tuple(row): int(n) for row, n in zip(rows.tolist(), counts, strict=True)}


@pytest.mark.parametrize("final_rows", [False, True])
def test_the_same_rows_equally_often(final_rows: bool, folder: ShmFolder) -> None:
    """Pearson's statistic of k equally likely rows has mean k - 1 and variance 2 (k - 1)."""
    made = histories(folder.path, 2, 2, 20, 31, chance=0.3, final_rows=final_rows)
    blocks = blocks_of(made)
    uniform = counted(UniformSampler(blocks, NAMES, 500, seed=1))
    found = counted(PrioritisedSampler(blocks, NAMES, 500, seed=1, alpha=0.0))
    assert found.keys() == uniform.keys()
    assert len(found) > 40
    mean, freedom = ROWS / len(found), len(found) - 1
    for counts in (uniform, found):
        statistic = sum((n - mean) ** 2 for n in counts.values()) / mean
        assert statistic < freedom + 4 * (2 * freedom) ** 0.5


@settings(max_examples=30)
@given(moves=st.lists(st.integers(1, 9), max_size=8), seed=st.integers(0, 99))
def test_every_row_there_is_counts_the_same(moves: list[int], seed: int) -> None:
    """While rows come and go, and priorities of all sizes are given to them."""
    rng = np.random.default_rng(seed)
    with temporary_folder() as path:
        made = histories(path, 2, 2, 10, 6, chance=0.3, final_rows=True)
        sampler = PrioritisedSampler(blocks_of(made), NAMES, 16, seed=seed, alpha=0.0)
        for move in moves:
            made[move % 2].write(move)
            sample = sampler.sample()
            assert (sample["weights"] == 1).all()
            sampler.update(sample["index"], rng.exponential(size=16) * 10.0 ** (move - 5))
            assert set(np.unique(sampler.priorities._tree.leaves)) == {0, 1}
