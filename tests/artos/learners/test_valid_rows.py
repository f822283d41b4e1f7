"""Rows that only reset an environment count in nothing that is learned or told."""

from __future__ import annotations

import pytest
import torch

from artos import PPO
from artos.learners.actor_critic import explained_variance

RNG = torch.Generator().manual_seed(0)
VALUES, VALID = torch.randn(64, generator=RNG) + 3, torch.arange(64) % 3 != 0


def test_advantages_are_normalised_over_transitions() -> None:
    spaced = torch.where(VALID, VALUES, 0)
    mean, spread = PPO()._scale(spaced, VALID)
    normalised = (spaced - mean)[VALID] / spread
    assert float(normalised.mean()) == pytest.approx(0, abs=1e-6)
    assert float(normalised.std()) == pytest.approx(1, abs=1e-6)
    wanted = PPO()._scale(VALUES[VALID])
    torch.testing.assert_close((mean, spread), wanted)


def test_transitions_without_a_mask_are_as_ever() -> None:
    assert PPO()._scale(VALUES) == (VALUES.mean(), VALUES.std() + 1e-8)
    assert PPO(normalize_advantages=False)._scale(VALUES, VALID) == (0.0, 1.0)


@pytest.mark.parametrize("count", [0, 1])
def test_hardly_any_transition(count: int) -> None:
    """One advantage is learned from as it is: less its own mean it would be nothing."""
    assert PPO()._scale(VALUES, torch.arange(64) < count) == (0, 1)
    assert PPO()._scale(VALUES[:count]) == (0, 1)
    assert PPO()._scale(VALUES[:count], VALID[:count]) == (0, 1)
    assert explained_variance(VALUES[:count], VALUES[:count]) == {"explained_variance": 0}


def test_explained_variance() -> None:
    guessed = VALUES + 0.1 * torch.randn(64, generator=RNG)
    spoilt = torch.where(VALID, guessed, 100)
    found = explained_variance(torch.where(VALID, VALUES, 0), spoilt, VALID)
    assert found == explained_variance(VALUES[VALID], guessed[VALID])
