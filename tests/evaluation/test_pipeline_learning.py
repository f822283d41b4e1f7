"""Learning with and without a pipeline is compared seed by seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evaluation.core.runner import Answer
from evaluation.learning import bench as pipeline_learning
from evaluation.learning.artos_side import PARTS, scores


def test_scores_are_shares_and_count_steps_alike() -> None:
    steps = np.arange(1000.0)
    rising = scores(steps, steps / 100 - 10, low=-10, high=10)
    assert rising["final"] == pytest.approx(0.47475, abs=0.001)
    assert rising["whole"] == pytest.approx(0.25, abs=0.001)
    often = np.repeat(steps, np.where(steps < 500, 5, 1))
    again = scores(often, often / 100 - 10, low=-10, high=10)
    assert again == pytest.approx(rising, abs=0.001), "not by the number of episodes"


def test_a_part_without_episodes_is_like_the_one_before() -> None:
    found = scores(np.array([950.0, 999.0]), np.array([4.0, 8.0]), low=0, high=10)
    assert found == {"final": pytest.approx(0.6), "whole": pytest.approx(0.6 / PARTS)}
    found = scores(np.array([1.0, 999.0]), np.array([4.0, 8.0]), low=0, high=10)
    assert found["whole"] == pytest.approx((9 * 0.4 + 0.8) / PARTS)


def test_pairs_have_the_same_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[str, str]] = []

    def ours(module: str, *arguments: str, seconds: float) -> Any:
        seed = arguments[arguments.index("--seed") + 1]
        pipeline = next(a for a in arguments if a.startswith("pipeline="))
        calls.append({"env": arguments[5], "seed": seed, "pipeline": pipeline})
        share = 0.5 + 0.01 * int(seed) - (0.1 if pipeline == "pipeline=minibatch" else 0.0)
        return lambda: Answer({"final": share, "whole": 0.5}, {})

    monkeypatch.setattr(pipeline_learning, "ours", ours)
    report = pipeline_learning.measure(5, quick=False, say=lambda text: None).report()
    assert len(calls) == 5 * 4
    assert {call["seed"] for call in calls} == set("12345")
    assert all(row.n == 5 for row in report.rows)
    final, whole = report.ratios[:2]
    assert final.median == pytest.approx(0.43 / 0.53)
    assert (final.holds, whole.holds) == (False, True)
