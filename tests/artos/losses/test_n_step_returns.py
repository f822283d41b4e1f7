"""Returns over n rows of a round, by numbers written out."""

from __future__ import annotations

import numpy as np

from artos.losses.rounds import following_values, n_step_returns


def test_they_stop_at_ends_and_at_the_end_of_the_round() -> None:
    """Row 2 is truncated, and row 3 holds what was seen then; row 4 terminates."""

    def column(*values: float) -> np.ndarray:
        return np.array(values, np.float32)[None, :, None]

    none = np.zeros((1, 6, 1), bool)
    cut, over, valid = none.copy(), none.copy(), ~none
    cut[0, 2], over[0, 4], valid[0, 3] = True, True, False
    values, last = column(10, 20, 30, 40, 50, 60), column(0, 0, 0, 0, 0, 70)
    following = following_values(values, last, over, cut, valid)
    rewards = column(1, 2, 3, 0, 5, 6)
    found = n_step_returns(rewards, following, over | cut, 0.5, 2)[0, :, 0]
    wanted = [1 + 0.5 * 2 + 0.25 * 30, 2 + 0.5 * 3 + 0.25 * 40, 3 + 0.5 * 40, 5, 6 + 0.5 * 70]
    np.testing.assert_allclose(found[[0, 1, 2, 4, 5]], wanted)
