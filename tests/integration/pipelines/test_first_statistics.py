"""What scales observations and rewards counts the first rows before they are learned from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hands import STEPS, Hands

from artos.protocol.invocations import Claim

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


def warmed_up(hands: Hands) -> tuple[tuple[Claim, ...], tuple[Claim, ...]]:
    """Two rounds, after one that all scales count."""
    before = hands.sample()
    hands.fire("update", *before)
    hands.acknowledge(before)
    return hands.sample(), hands.sample()


@pytest.mark.parametrize("pipeline", ["dual", "full"])
@pytest.mark.parametrize("ahead", [True, False])
def test_updates_are_those_without_a_pipeline(pipeline: str, ahead: bool, tmp_path: Path) -> None:
    """Whether the next round comes before the learner is done with this one, or after that."""
    with Hands(tmp_path, **SCALED, max_lag=1) as plain:
        for claims in warmed_up(plain):
            plain.fire("update", *claims)
        wanted = plain.params
    with Hands(tmp_path, **SCALED, max_lag=1, pipeline=pipeline) as hands:
        first, second = warmed_up(hands)
        if ahead:
            hands.fire("preprocess", *second)
        hands.fire("update", *first)
        if not ahead:
            hands.fire("preprocess", *second)
            assert hands.ppo._advantages.beside(second[0]) == second, "done early where it can be"
        if pipeline == "full":
            hands.fire("accumulate", second[0])
        hands.fire("update", *second)
        np.testing.assert_allclose(hands.params, wanted, rtol=1e-5, atol=1e-6)
