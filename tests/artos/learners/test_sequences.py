"""Rows as whole sequences: every column once, in the order of time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from artos.learners.sequences import sequence_minibatches, time_major

SHAPES = st.tuples(st.integers(1, 4), st.integers(1, 6), st.integers(1, 4))


@given(shape=SHAPES, count=st.integers(1, 5), seed=st.integers(0, 99))
def test_minibatches_are_whole_columns_in_the_order_of_time(
    shape: tuple[int, int, int], count: int, seed: int
) -> None:
    actors, steps, envs = shape
    numbers = np.arange(actors * steps * envs).reshape(shape)
    rng, seen = np.random.default_rng(seed), []
    for index in sequence_minibatches(shape, count, rng):
        if not len(index):
            continue
        shuffled = rng.permutation(index)
        for rows in (index, shuffled):
            by = time_major(shape, rows)
            arranged = rows[by.order].reshape(steps, -1)
            for column in arranged.T:
                actor, env = column[0] // (steps * envs), column[0] % envs
                np.testing.assert_array_equal(column, numbers[actor, :, env])
            np.testing.assert_array_equal(arranged.reshape(-1)[by.back], rows)
        seen += index.tolist()
    assert sorted(seen) == numbers.reshape(-1).tolist()


def test_rows_that_are_no_whole_sequences_are_refused() -> None:
    with pytest.raises(ValueError, match="not whole sequences of 3"):
        time_major((1, 3, 2), np.arange(5))
