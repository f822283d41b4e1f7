"""GRPO on tokens: rows are as old as they may be, and it learns whatever is killed on the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inline_runs import finished, registered
from named import LEARNER, acting
from real_runs import Artos, updates

import artos as library
from artos.buffer.samplers.batch import Batch
from artos.protocol.invocations import Invoke

LITTLE = {"groups": 2, "group": 4, "width": 16, "threads": 1, "total_steps": 0}
QUICK = {"groups": 8, "width": 32, "lr": 5e-3, "threads": 1, "total_steps": 0}
TASK = "ReverseText-v0(digits=2)"


def words(settings: dict[str, Any]) -> list[str]:
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


@pytest.mark.parametrize("max_lag", [0, 1, 2])
def test_no_row_is_older_than_it_may_be(
    max_lag: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And rows of the newest weights have the log-probabilities that the learner finds."""
    lags: list[int] = []
    mismatches: list[tuple[int, float]] = []
    update = library.GRPO.update

    def noted(learner: library.GRPO, batch: Batch, call: Invoke) -> dict[str, float]:
        each = (len(mismatches) - batch.versions()).ravel().tolist()  # each update is a version
        lags.extend(each)
        metrics = update(learner, batch, call)
        mismatches.append((max(each), abs(metrics["mismatch_kl"])))
        return metrics

    monkeypatch.setattr(library.GRPO, "update", noted)
    made = registered("grpo", tmp_path, max_lag=max_lag, total_updates=8, lr=3e-2, **LITTLE)
    finished(made, tmp_path)
    assert len(lags) == 8 * 2 * 6
    assert 0 <= min(lags) <= max(lags) == max_lag
    for lag, mismatch in mismatches:
        assert (mismatch <= 1e-6) == (lag == 0)


@pytest.mark.long
@pytest.mark.processes
def test_it_learns_whatever_is_killed_on_the_way(start: Callable[..., Artos], home: Path) -> None:
    """An actor, then the learner; then the run ends, and goes on."""
    folder = home / "texts"
    run = start("run", "grpo", "--env", TASK, *words(QUICK), "--total-updates", 30, "--json",
                "--run-dir", folder)  # fmt: skip
    for at, member in ((8, acting(1)[0]), (16, LEARNER)):
        run.until(lambda: updates(folder) >= at)  # noqa: B023
        process = run.member(member)
        assert process is not None
        process.kill()
    first = run.wait()
    assert first.status == 0, first.err
    assert first.summary["restarts"] == 2
    assert first.summary["lag_max"] <= 1
    again = start("run", "--resume", folder, "--total-updates", 75, "--json").wait()
    assert again.status == 0, again.err
    assert again.summary["updates"] == 75
    assert again.summary["mean_return_100"] > first.summary["mean_return_100"]
    exact = library.load(folder).evaluate(200, env=TASK.replace(")", ", partial=False)"))
    assert exact.mean_return >= 0.9
