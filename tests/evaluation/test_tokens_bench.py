"""``artos bench tokens``: updates of both sides until texts are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from artos.learners.torch_learner import TorchLearner
from artos.protocol.invocations import Invoke
from evaluation.baselines.one_file_grpo import LAG, REACHED
from evaluation.core.benchmark import Benchmark
from evaluation.core.report import OURS, missed
from evaluation.core.runner import Answer
from evaluation.tokens import artos_side, bench, counted
from triggers.algorithms.grpo import GRPO


def measured(needed: dict[str, list[float]], monkeypatch: pytest.MonkeyPatch) -> Any:
    """A report of seeds that needed so many updates; 0: they did not get there."""

    def answered(module: str, *words: str, seconds: float) -> Any:
        given = dict(zip(words[::2], words[1::2], strict=True))
        (side,) = (side for side, each in bench.SIDES.items() if each == module)
        updates = needed[side][int(given["--seed"]) - 1]
        found = {LAG: float(given["--lag"])} | ({REACHED: updates} if updates else {})
        return lambda: Answer(found, {})

    monkeypatch.setattr(bench, "ours", answered)
    return bench.of("toy", (0, 4)).measure(bench.SEEDS, False, lambda _: None).report()


def test_updates_are_compared_for_each_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = {OURS: [50.0, 60.0, 70.0, 60.0, 60.0], bench.REFERENCE: [50.0] * 5}
    found = measured(needed, monkeypatch)
    assert [(ratio.median, ratio.holds) for ratio in found.ratios] == [(1.2, True)] * 2
    assert missed(found) == 0
    old = {row.median for row in found.rows if row.unit == "versions, mean"}
    assert old == {0.0, 4.0}


@pytest.mark.parametrize("side", bench.SIDES)
def test_who_does_not_get_there_is_not_judged_by_the_others(
    side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = {each: [50.0] * 5 for each in bench.SIDES} | {side: [50.0, 0.0, 50.0, 50.0, 50.0]}
    found = measured(needed, monkeypatch)
    assert [ratio.holds for ratio in found.ratios] == [None] * 2
    assert missed(found) == 2
    (row, *_) = (row for row in found.rows if None in row.values)
    assert row.note == f"{REACHED} is not in the answer"


def test_one_lag_may_be_chosen() -> None:
    parts = bench.BENCHMARK.parts
    assert [*parts] == [bench.task(lag) for lag in (0, 1, 4)]
    assert all(isinstance(part, Benchmark) for part in parts.values())


def test_a_run_says_in_which_update_it_was_right_first(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = iter([0.1, 0.9, 0.3, 0.95])
    monkeypatch.setattr(TorchLearner, "setup", lambda *_: None)
    monkeypatch.setattr(GRPO, "update", lambda *_: {"exact_match": next(exact)})
    learner, nothing = counted.Counted(), np.zeros(0)
    learner.setup(nothing)  # type: ignore[arg-type]
    found = [learner.update(nothing, Invoke(1, "learner.update", "update")) for _ in range(4)]  # type: ignore[arg-type]
    assert [each[counted.REACHED] for each in found] == [0, 2, 2, 2]


def test_the_answer_is_in_the_last_row_of_a_runs_progress() -> None:
    row = {"lag_mean": "0.75", f"metrics/{counted.REACHED}": "52.0"}
    assert artos_side.told(row) == {LAG: 0.75, REACHED: 52.0}
    assert artos_side.told(row | {f"metrics/{counted.REACHED}": "0"}) == {LAG: 0.75}


@pytest.mark.parametrize("max_lag", [0, 4])
def test_it_is_grpo_as_it_is_by_default(max_lag: int) -> None:
    found = counted.workload(max_lag=max_lag)
    assert isinstance(found.learner, counted.Counted)
    assert found.learner.settings.max_lag == found.triggers["learner.update"].max_lag == max_lag
    assert (found.actors, found.actor.envs, found.steps) == (2, 16 * 16, 6)
