"""GRPO on a language model of Transformers: its adapters learn, wherever they are."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inline_runs import commanded, finished, registered
from language_models import needs_llm, small
from named import LEARNER, acting
from real_runs import Artos, Outcome, checkpointed, updates

import artos as library
from artos.buffer.samplers.batch import Batch
from artos.protocol.invocations import Invoke

TASK = "ReverseText-v0(digits=2)"
LITTLE = {"groups": 2, "group": 4, "rank": 2, "lr": 3e-2, "threads": 1, "total_steps": 0}


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return small(tmp_path / "model")


def words(settings: dict[str, Any]) -> list[str]:
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


def test_without_it_a_run_is_refused(home: Path) -> None:
    """Before anything starts, and in one message, whatever else the task would need."""
    run = ("run", "grpo", "--env", "nowhere:Task", "--set", "model=m.gguf", "--set", "rank=0")
    found = commanded(home, run)
    assert found.status == 2
    assert "rank=0: adapters are at least of rank 1" in found.err
    assert "model=m.gguf is not there: write the path from the root" in found.err
    assert "nowhere" not in found.err


@needs_llm
@pytest.mark.parametrize("max_lag", [0, 1])
def test_rows_have_the_probabilities_that_the_learner_finds(
    max_lag: int, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To rounding where they are of its weights, and versions hold nothing but adapters."""
    mismatches: list[tuple[int, float]] = []
    update = library.GRPO.update

    def noted(learner: library.GRPO, batch: Batch, call: Invoke) -> dict[str, float]:
        lag = len(mismatches) - int(batch.versions().min())  # each update is a version
        metrics = update(learner, batch, call)
        mismatches.append((lag, abs(metrics["mismatch_kl"])))
        return metrics

    monkeypatch.setattr(library.GRPO, "update", noted)
    here = {"env": TASK, "model": str(model), "max_lag": max_lag, "total_updates": 6}
    plan = registered("grpo", tmp_path, **LITTLE, **here)
    arrays = finished(plan, tmp_path).arrays
    assert {lag for lag, _ in mismatches} == {0, max_lag}
    for lag, mismatch in mismatches:
        assert (mismatch <= 1e-6) == (lag == 0)
    each = sum(24 + out for out in (24, 12, 12, 24))  # what meets at q, k, v and o
    assert len(arrays["params"]) == 2 * 2 * each


@needs_llm
@pytest.mark.long
@pytest.mark.processes
def test_apart_it_learns_what_it_does_in_turn(
    artos: Callable[..., Outcome], model: Path, home: Path
) -> None:
    """To the last bit: each process has read the same weights."""
    task = ("run", "grpo", "--env", TASK, "--seed", 5, "--total-updates", 6, "--json")
    settings = words(LITTLE | {"model": model, "max_lag": 0})
    assert artos(*task, "--run-dir", "turns", "--inline", *settings).status == 0
    apart = artos(*task, "--run-dir", "apart", *settings)
    assert apart.status == 0, apart.err
    wanted, found = checkpointed(home / "turns"), checkpointed(home / "apart")
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@needs_llm
@pytest.mark.long
@pytest.mark.processes
def test_it_goes_on_whoever_is_killed(start: Callable[..., Artos], model: Path, home: Path) -> None:
    """An actor and the learner at once; then the run ends, and goes on, and is played."""
    folder = home / "adapted"
    settings = words(LITTLE | {"model": model, "lr": 1e-2})
    run = start("run", "grpo", "--env", TASK, *settings, "--total-updates", 1_000_000, "--json",
                "--run-dir", folder)  # fmt: skip
    run.until(lambda: updates(folder) >= 8)
    for member in (acting(1)[0], LEARNER):
        run.kill(member)
    killed_at = updates(folder)
    run.until(lambda: updates(folder) >= killed_at + 8)
    run.signal(signal.SIGINT)
    ended = run.wait().summary
    assert ended["restarts"] == 2
    wanted = ended["updates"] + 10
    again = start("run", "--resume", folder, "--total-updates", wanted, "--json").wait()
    assert again.status == 0, again.err
    assert again.summary["updates"] == wanted
    assert again.summary["lag_max"] <= 1
    played = library.load(folder).evaluate(20)
    assert 0 <= played.mean_return <= 1
