"""What scales observations and rewards counts the first rows before they are learned from."""

from __future__ import annotations

from pathlib import Path

import pytest
from hands import STEPS, Hands

ROWS = 3 * 2 * STEPS
"""Of a round of all actors."""
SCALED = {"env": "Pendulum-v1", "normalize": True}


def counts(hands: Hands) -> tuple[float, float]:
    """Rows that count for observations and for rewards."""
    module = hands.ppo.module
    return module.normalizer.count.item(), hands.ppo._reward_scale.module.moments[2].item()


def test_every_round_counts_once_and_the_first_one_at_once(tmp_path: Path) -> None:
    with Hands(tmp_path, **SCALED, max_lag=1) as hands:
        first = hands.fire("update", *hands.sample())
        assert counts(hands) == (ROWS, ROWS)
        # Pendulum's rewards are -16 to 0, so squared errors of unscaled values are above 100.
        assert first.metrics["value_loss"] < 10
        hands.fire("update", *hands.sample())
        assert counts(hands) == (2 * ROWS, 2 * ROWS)


@pytest.mark.parametrize(
    ("pipeline", "early"), [("minibatch", "first_pass"), ("dual", "preprocess")]
)
def test_nothing_is_done_early_before_that(pipeline: str, early: str, tmp_path: Path) -> None:
    """A piece of the first round is too little to scale by, and all pipelines scale alike."""
    with Hands(tmp_path, **SCALED) as plain:
        wanted = plain.fire("update", *plain.sample()).metrics["value_loss"]
    with Hands(tmp_path, **SCALED, pipeline=pipeline) as hands:
        claims = hands.sample()
        for claim in claims:
            hands.fire(early, claim)
        assert hands.gradients == []
        done = hands.fire("update", *claims)
        assert counts(hands) == (ROWS, ROWS)
        assert done.metrics["value_loss"] == pytest.approx(wanted, rel=1e-4)
