"""Advantages of novelty, by numbers that are computed by hand."""

from __future__ import annotations

import numpy as np

from artos.losses.intrinsic import intrinsic_advantages


def test_a_row_is_rewarded_for_what_comes_next() -> None:
    novelty = np.array([9.0, 1.0, 2.0], np.float32).reshape(1, 3, 1)
    values = np.array([4.0, 8.0, 6.0], np.float32).reshape(1, 3, 1)
    gains, returns = intrinsic_advantages(novelty, values, 0.5, 0.5)
    # Errors: 1 + 4 - 4, then 2 + 3 - 8, then none, as nothing is known of what follows.
    assert gains.ravel().tolist() == [1 - 3 / 4, -3, 0]
    assert returns.ravel().tolist() == [4.25, 5, 6]


def test_nothing_is_known_of_the_only_row() -> None:
    one = np.full((2, 1, 3), 7, np.float32)
    gains, returns = intrinsic_advantages(one, 3 * one, 0.9, 0.9)
    assert not gains.any()
    np.testing.assert_array_equal(returns, 3 * one)
