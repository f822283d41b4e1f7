"""GRPO's loss and advantages, by numbers worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from artos.losses.grpo import group_advantages, grpo_loss

SETTINGS: dict[str, Any] = {"mask_low": 0.2, "mask_high": 0.2, "delta": 2.0, "kl": 0.0}


def loss_of(now: float, then: float, advantage: float, **more: Any) -> tuple[float, float, Any]:
    """The loss of one token by its probabilities, the loss's slope in log(p), and the report."""
    log = torch.tensor([math.log(now)], requires_grad=True)
    behaviour, gain = torch.tensor([math.log(then)]), torch.tensor([advantage])
    loss, report = grpo_loss(log, behaviour, gain, torch.tensor([True]), **SETTINGS | more)
    loss.backward()
    assert log.grad is not None
    return loss.item(), float(log.grad), report


def test_advantages_are_those_within_the_group() -> None:
    returns = torch.tensor([1.0, 0.0, 0.5, 0.5])
    plain = group_advantages(returns, 2, normalize=False)
    assert plain.tolist() == [0.5, -0.5, 0.0, 0.0]
    scaled = group_advantages(returns, 2, normalize=True)
    expected = 0.5 / (math.sqrt(0.5) + 1e-4)
    torch.testing.assert_close(scaled, torch.tensor([expected, -expected, 0.0, 0.0]))


@pytest.mark.parametrize(
    ("now", "then", "advantage", "wanted"),
    [
        (0.5, 0.5, 3.0, -3.0),  # as it was sampled: the plain policy gradient
        (0.6, 0.5, 1.0, -1.2),
        (0.4, 0.5, -1.0, 0.8),
        (0.75, 0.5, 1.0, 0.0),  # up by more than 0.2 already
        (0.25, 0.5, -1.0, 0.0),  # down by more than 0.2 already
        (0.75, 0.5, -1.0, 1.5),  # masked in its own direction only
        (0.25, 0.5, 1.0, -0.5),
    ],
)
def test_a_token_is_masked_where_its_probability_has_moved_far_enough(
    now: float, then: float, advantage: float, wanted: float
) -> None:
    loss, slope, report = loss_of(now, then, advantage)
    assert loss == pytest.approx(wanted)
    assert slope == pytest.approx(wanted), "d r / d log p = r"
    assert report["mask_fraction"] == (wanted == 0)


def test_a_ratio_beyond_delta_counts_as_delta_and_teaches_nothing() -> None:
    loss, slope, report = loss_of(0.3, 0.1, 1.0, mask_high=1.0)
    assert (loss, slope) == (pytest.approx(-2.0), 0.0)
    assert report["clip_fraction"] == 1


@pytest.mark.parametrize("now", [0.1, 0.15, 0.9])
@pytest.mark.parametrize("advantage", [1.5, -1.0])
def test_aipo_weighs_the_plain_gradient_and_masks_nothing(now: float, advantage: float) -> None:
    """Also beyond delta, where its weight stays and does not end."""
    loss, slope, report = loss_of(now, 0.1, advantage, loss="aipo")
    weight = min(now / 0.1, 2.0)
    assert loss == pytest.approx(-weight * advantage * math.log(now))
    assert slope == pytest.approx(-weight * advantage)
    assert (report["mask_fraction"], report["clip_fraction"]) == (0, now == 0.9)


def test_the_second_term_draws_back_masked_tokens_too() -> None:
    loss, slope, report = loss_of(0.75, 0.5, 1.0, kl=0.1)
    log = math.log(1.5)
    assert loss == pytest.approx(0.1 * log**2)
    assert slope == pytest.approx(0.2 * log)
    assert report["policy_loss"] == 0
    assert report["mismatch_kl"] == pytest.approx(0.5 - log)


def test_tokens_of_later_texts_do_not_count() -> None:
    logs = torch.log(torch.tensor([0.6, 0.5, math.nan]))
    behaviour, gains = torch.full((3,), math.log(0.5)), torch.tensor([1.0, -1.0, math.nan])
    valid = torch.tensor([True, True, False])
    loss, report = grpo_loss(logs, behaviour, gains, valid, **SETTINGS)
    assert float(loss) == pytest.approx((-1.2 + 1.0) / 2)
    assert all(value.isfinite() for value in report.values())
