"""Returns over n rows, of rounds and of whole episodes of lengths of their own."""

from __future__ import annotations

import numpy as np
import pytest

from artos import n_step_returns


def test_they_stop_at_ends_and_at_the_end_of_the_round() -> None:
    """Row 2 is truncated, and row 3 holds what was seen then; row 4 terminates."""

    def column(*values: float) -> np.ndarray:
        return np.array(values, np.float32)[None, :, None]

    none = np.zeros((1, 6, 1), bool)
    cut, over, valid = none.copy(), none.copy(), ~none
    cut[0, 2], over[0, 4], valid[0, 3] = True, True, False
    values, last = column(10, 20, 30, 40, 50, 60), column(0, 0, 0, 0, 0, 70)
    rewards = column(1, 2, 3, 0, 5, 6)
    found = n_step_returns(rewards, values, last, over, cut, 0.5, 2, valid)[0, :, 0]
    wanted = [1 + 0.5 * 2 + 0.25 * 30, 2 + 0.5 * 3 + 0.25 * 40, 3 + 0.5 * 40, 5, 6 + 0.5 * 70]
    np.testing.assert_allclose(found[[0, 1, 2, 4, 5]], wanted)


@pytest.mark.parametrize("n", [1, 3, 8, 20])
def test_those_of_padded_episodes_are_those_of_a_plain_loop(n: int) -> None:
    """Episodes of 1 to 12 rows, half of which are cut off; ``rewards`` may be of any dtype."""
    rng, lengths = np.random.default_rng(n), (7, 1, 12, 3)
    shape, gamma = (max(lengths), len(lengths)), 0.9
    mask = np.arange(shape[0])[:, None] < lengths
    rewards, values = (rng.normal(size=shape) * mask for _ in range(2))
    over, cut, after = np.zeros(shape, bool), np.zeros(shape, bool), np.zeros(shape)
    for at, length in enumerate(lengths):
        (over, cut)[at % 2][length - 1, at] = True
        after[length - 1, at] = 5.0  # which only counts where the episode was cut off
    wanted = np.zeros(shape)
    for at, length in enumerate(lengths):
        for row in range(length):
            last = min(row + n, length)
            wanted[row, at] = sum(gamma ** (k - row) * rewards[k, at] for k in range(row, last))
            if last < length or cut[length - 1, at]:
                value = values[last, at] if last < length else after[length - 1, at]
                wanted[row, at] += gamma ** (last - row) * value
    found = n_step_returns(rewards, values, after, over, cut, gamma, n)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert not found[~mask].any(), "behind the end of an episode nothing is summed"
