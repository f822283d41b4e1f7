"""The gradient noise scale from gradients of two sizes (McCandlish et al. 2018, appendix A)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from artos.learners.network import Network
from artos.learners.noise import GradientNoise
from artos.learners.optimisers import Adam


def estimate(true: float, spread: float, seed: int, updates: int = 400) -> float:
    """Of gradients of 50 numbers: each row's is ``true`` plus noise of that standard deviation."""
    random, meter, found = np.random.default_rng(seed), GradientNoise(decay=0.98), 0.0
    for _ in range(updates):
        for _ in range(4):
            noise = random.normal(0.0, spread / np.sqrt(64), 50)
            meter.add(torch.from_numpy(true + noise))
        found = meter.estimate(4 * 64)
    return found


@pytest.mark.parametrize(("true", "spread"), [(0.1, 1.0), (0.5, 1.0), (0.1, 3.0)])
def test_it_is_noise_over_signal_in_rows(true: float, spread: float) -> None:
    """tr(Σ) / |G|² = 50 spread² / (50 true²), whatever the sizes of the batches."""
    found = np.median([estimate(true, spread, seed) for seed in range(5)])
    assert found == pytest.approx((spread / true) ** 2, rel=0.25)


def test_equal_gradients_have_no_noise() -> None:
    assert estimate(0.5, 0.0, 0, updates=2) == pytest.approx(0.0, abs=1e-6)


def test_a_gradient_lost_in_noise_gives_a_large_finite_number() -> None:
    meter = GradientNoise()
    meter.add(torch.tensor([1.0, -1.0]))
    meter.add(torch.tensor([-1.0, 1.0]))
    found = meter.estimate(100)
    assert found > 1e6
    assert np.isfinite(found)


@pytest.mark.parametrize("minibatches", [0, 1])
def test_one_minibatch_tells_nothing(minibatches: int) -> None:
    meter = GradientNoise()
    for _ in range(minibatches):
        meter.add(torch.ones(3))
    with pytest.raises(ValueError, match="at least 2"):
        meter.estimate(8)


def test_gradients_are_shown_before_they_are_clipped() -> None:
    module, seen = nn.Linear(3, 1, bias=False), list[float]()
    network = Network(module, Adam(0.1), max_grad_norm=0.5)
    network.observe = lambda gradient: seen.append(float(gradient.norm()))
    network.step(module(torch.full((1, 3), 10.0)).sum())
    assert seen == pytest.approx([10.0 * 3**0.5])
    assert float(network.weights.grad.norm()) == pytest.approx(0.5, rel=1e-4)  # type: ignore[union-attr]


def test_an_update_without_a_row_that_counts_tells_nothing() -> None:
    meter, found = GradientNoise(), []
    for rows in (8, 0):
        for number in range(2):
            meter.add(torch.arange(4.0) + number)
        found.append(meter.estimate(rows))
    assert found[0] == found[1] > 0
