"""GRPO on tokens: rows are as old as they may be, and it learns whatever is killed on the way."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Any, get_args

import numpy as np
import pytest
from inline_runs import commanded, finished, registered
from named import LEARNER, acting
from real_runs import Artos, Outcome, checkpointed, updates
from text_servers import TextServer

import artos as library
from artos.buffer.samplers.batch import Batch
from artos.losses.grpo import Loss
from artos.protocol.invocations import Invoke

LITTLE = {"groups": 2, "group": 4, "width": 16, "threads": 1, "total_steps": 0}
QUICK = {"groups": 8, "width": 32, "lr": 5e-3, "threads": 1, "total_steps": 0}
TASK = "ReverseText-v0(digits=2)"


def words(settings: dict[str, Any]) -> list[str]:
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("loss", get_args(Loss))
def test_it_ends_with_texts_that_are_right(loss: str, seed: int, home: Path) -> None:
    """And with log-probabilities that are those of the learner, at no lag."""
    settings = words(QUICK | {"loss": loss, "max_lag": 0})
    task = ("run", "grpo", "--env", TASK, "--inline", "--seed", seed, "--total-updates", 70)
    found = commanded(home, (*task, "--run-dir", "right", *settings))
    assert found.status == 0, found.err
    rows = list(csv.DictReader((home / "right" / "progress.csv").read_text().splitlines()))
    rewards, exact, mismatch = (
        [float(row[f"metrics/{name}"]) for row in rows if row[f"metrics/{name}"]]
        for name in ("reward", "exact_match", "mismatch_kl")
    )
    assert rewards[0] < 0.5 < rewards[-1]
    assert exact[-1] >= 0.9
    assert max(map(abs, mismatch)) <= 1e-6


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("seed", [1, 2])
def test_its_defaults_learn_their_task(seed: int, start: Callable[..., Artos], home: Path) -> None:
    """Six digits; nine of ten texts are right in all of them, as the page says.

    A reference in one process takes 63 updates, and this may take a quarter more.
    """
    run = start(
        "run", "grpo", "--seed", seed, "--total-updates", 78, "--run-dir", "usual", "--json"
    )
    assert run.wait().status == 0, run.said
    with (home / "usual" / "progress.csv").open() as file:
        exact = [float(row["metrics/exact_match"] or 0) for row in csv.DictReader(file)]
    assert fmean(exact[-3:]) >= 0.9


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TextServer]:
    running = TextServer(tmp_path)
    yield running
    running.kill()


@pytest.mark.parametrize(
    "max_lag", [1, *(pytest.param(each, marks=pytest.mark.long) for each in (0, 2, 4))]
)
@pytest.mark.parametrize(
    "weights", ["block", "files", pytest.param("http", marks=pytest.mark.processes)]
)
def test_no_row_is_older_than_it_may_be(
    weights: str,
    max_lag: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """And rows of the newest weights have the log-probabilities that the learner finds."""
    way = {"weights": weights}
    if weights != "block":
        way["weights_folder"] = str(tmp_path / "weights")
    if weights == "http":
        way["server"] = request.getfixturevalue("server").url
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
    here = {"env": TASK, "max_lag": max_lag, "total_updates": 8, "lr": 3e-2}
    finished(registered("grpo", tmp_path, **LITTLE, **here, **way), tmp_path)
    assert len(lags) == 8 * 2 * 2
    assert 0 <= min(lags) <= max(lags) == max_lag
    for lag, mismatch in mismatches:
        assert (mismatch <= 1e-6) == (lag == 0)


@pytest.mark.processes
def test_apart_and_by_files_it_learns_what_it_does_in_turn(
    artos: Callable[..., Outcome], home: Path
) -> None:
    """To the last bit: with max_lag=0 nothing depends on who is faster."""
    task = ("run", "grpo", "--env", TASK, "--seed", 5, "--total-updates", 6, "--json")
    settings = words(LITTLE | {"max_lag": 0})
    folder = ("--set", "weights=files", "--set", f"weights_folder={home / 'weights'}")
    assert artos(*task, "--run-dir", "turns", "--inline", *settings).status == 0
    apart = artos(*task, "--run-dir", "apart", *settings, *folder)
    assert apart.status == 0, apart.err
    wanted, found = checkpointed(home / "turns"), checkpointed(home / "apart")
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.long
@pytest.mark.processes
def test_a_server_writes_for_it_whoever_is_killed(
    start: Callable[..., Artos], home: Path, tmp_path: Path
) -> None:
    """An actor, the learner, the server; and it goes on from where a run ended."""
    folder, server = home / "served", TextServer(tmp_path, width=QUICK["width"])
    settings = QUICK | {"weights": "http", "weights_folder": home / "weights", "server": server.url}
    run = start("run", "grpo", "--env", TASK, *words(settings), "--total-updates", 30, "--json",
                "--run-dir", folder)  # fmt: skip
    try:
        for at, member in ((6, acting(1)[0]), (12, LEARNER)):
            run.until(lambda: updates(folder) >= at)  # noqa: B023
            run.kill(member)
        run.until(lambda: updates(folder) >= 18)
        server.kill()
        server = TextServer(tmp_path, server.port, width=QUICK["width"])
        first = run.wait()
        assert first.status == 0, first.err
        assert (first.summary["restarts"], first.summary["updates"]) == (2, 30)
        assert first.summary["lag_max"] <= 1
        again = start("run", "--resume", folder, "--total-updates", 40, "--json").wait()
        assert again.status == 0, again.err
        assert again.summary["updates"] == 40
        assert again.summary["lag_max"] <= 1
    finally:
        server.kill()
    assert (home / "weights" / "run_1" / "step_40").is_dir()


@pytest.mark.long
@pytest.mark.processes
def test_it_learns_whatever_is_killed_on_the_way(start: Callable[..., Artos], home: Path) -> None:
    """An actor, then the learner; then the run ends, and goes on, and so again."""
    folder = home / "texts"
    run = start("run", "grpo", "--env", TASK, *words(QUICK), "--total-updates", 60, "--json",
                "--run-dir", folder)  # fmt: skip
    for at, member in ((8, acting(1)[0]), (16, LEARNER)):
        run.until(lambda: updates(folder) >= at)  # noqa: B023
        run.kill(member)
    first = run.wait()
    assert first.status == 0, first.err
    assert first.summary["restarts"] == 2
    assert first.summary["lag_max"] <= 1
    for total in (80, 105):
        again = start("run", "--resume", folder, "--total-updates", total, "--json").wait()
        assert again.status == 0, again.err
        assert again.summary["updates"] == total
        assert again.summary["lag_max"] <= 1
    assert again.summary["mean_return_100"] >= 0.9
    exact = library.load(folder).evaluate(200, env=TASK.replace(")", ", partial=False)"))
    assert exact.mean_return >= 0.9
