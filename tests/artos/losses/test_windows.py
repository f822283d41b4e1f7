"""Targets within windows against sums written out, and the scale of values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from artos.losses.windows import rescaled, unscaled, window_returns

GAMMA = 0.9


def looked_ahead(rewards: Any, terminated: Any, mask: Any, n: int, t: int) -> Any:
    """Return, discount and bootstrap row of one row of one window; None if it has no successor."""
    length, total, row = len(mask), 0.0, t
    while row < t + n and mask[row]:
        if not terminated[row] and row + 1 == length:
            break
        total += GAMMA ** (row - t) * rewards[row]
        if terminated[row]:
            return total, 0.0, None
        row += 1
        if row == length:
            break
    return None if row == t else (total, GAMMA ** (row - t), row)


@settings(max_examples=200)
@given(
    length=st.integers(1, 6), valid=st.integers(0, 6), over=st.booleans(), n=st.integers(1, 4),
    seed=st.integers(0, 9),
)  # fmt: skip
def test_returns_stay_in_the_window_and_its_episode(
    length: int, valid: int, over: bool, n: int, seed: int
) -> None:
    """A window of ``valid`` rows of an episode, which terminates with the last of them or not."""
    rng = np.random.default_rng(seed)
    valid = min(valid, length)
    mask = np.arange(length) < valid
    terminated = rng.random(length) < 0.5  # whatever rows say that do not count
    terminated[:valid] = False
    if valid:
        terminated[valid - 1] = over
    rewards = rng.normal(size=length).astype(np.float32)
    rewards[~mask] = np.nan
    columns = [torch.from_numpy(each).unsqueeze(1) for each in (rewards, terminated, mask)]
    found = window_returns(*columns, GAMMA, n)
    for t in range(length):
        wanted = looked_ahead(rewards, terminated, mask, n, t) if mask[t] else None
        assert found.counts[t, 0] == (wanted is not None)
        if wanted is not None:
            assert found.returns[t, 0].item() == pytest.approx(wanted[0], rel=1e-4, abs=1e-5)
            assert found.discounts[t, 0].item() == pytest.approx(wanted[1])
            assert wanted[2] in (None, found.steps[t, 0].item())
    assert torch.isfinite(found.returns).all()


def test_the_scale_of_values_has_an_inverse() -> None:
    values = torch.tensor([-300.0, -1.0, -1e-3, 0.0, 0.5, 20.0, 1_000.0], dtype=torch.float64)
    torch.testing.assert_close(unscaled(rescaled(values)), values, rtol=1e-6, atol=1e-9)
    assert rescaled(values)[-1].item() == pytest.approx(1001**0.5 - 1 + 1.0)
