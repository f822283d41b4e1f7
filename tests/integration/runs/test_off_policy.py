"""Temporal training and uniform replay (paper Tables 1 and 3), end to end."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from real_runs import Outcome, journal

from artos.checkpoint import read_manifest
from head.records.progress_log import read_history

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("mode", [(), ("--inline",)], ids=["processes", "inline"])
def test_clock_fires_actors_and_learner(
    mode: tuple[str, ...], artos: Callable[..., Outcome], home: Path
) -> None:
    shutil.copy(Path(__file__).with_name("replaying.py"), home)
    outcome = artos("run", "replaying.py:workload", "--json", "--run-dir", "off", *mode)
    assert outcome.status == 0, outcome.err
    summary = outcome.summary
    # A clock asks whoever has room: the last to be asked may go one round beyond the budget.
    assert 20_000 <= summary["steps"] <= 20_000 + 2 * 50 * 2
    assert summary["updates"] > 20
    assert summary["rows_lost"] == summary["restarts"] == 0
    drawn = [line for line in journal(home / "off") if "lags" in line]
    assert summary["lag_max"] == max(line["lag_max"] for line in drawn) > 0
    assert sum(summary["lag_histogram"].values()) == 64 * len(drawn)
    rows = {actor: lag["rows"] for actor, lag in summary["lag_by_actor"].items()}
    assert rows.keys() == {"0", "1"}
    assert sum(rows.values()) == 64 * len(drawn)
    manifest = read_manifest(home / "off" / "checkpoint")
    assert any("replay buffer: it is empty again" in lost for lost in manifest.not_restored)
    assert not any("not yet learned from" in lost for lost in manifest.not_restored)
    last = read_history(home / "off" / "progress.csv")[-1]
    assert float(last["metrics/loss"]) < 0.5
    assert float(last["metrics/actors_drawn"]) == 2
    assert float(last["metrics/own_lag"]) == pytest.approx(summary["lag_mean"], rel=1e-4)


@pytest.mark.parametrize(
    ("mode", "prioritised"), [((), "true"), (("--inline",), "false")], ids=["processes", "inline"]
)
def test_every_row_is_drawn_as_often_as_the_trigger_says(
    mode: tuple[str, ...], prioritised: str, artos: Callable[..., Outcome], home: Path
) -> None:
    shutil.copy(Path(__file__).with_name("replaying.py"), home)
    settings = ("--set", f"prioritised={prioritised}")
    outcome = artos("run", "replaying.py:replayed", "--json", "--run-dir", "off", *settings, *mode)
    assert outcome.status == 0, outcome.err
    summary = outcome.summary
    assert 6_000 <= summary["steps"] <= 6_000 + 2 * 2 * 20
    wanted, slack = 8 * (summary["steps"] - 1_000), 8 * 20 * 2 + 64
    assert summary["updates"] * 64 == pytest.approx(wanted, abs=slack)
    assert summary["replay_ratio"] == pytest.approx(summary["updates"] * 64 / summary["steps"])
    assert summary["rows_lost"] == summary["restarts"] == 0
    assert summary["lag_max"] > 0
    again = artos("run", "--resume", "off", "--json", "--set", "total_steps=8000")
    assert again.status == 0, again.err
    made = again.summary["steps"] - summary["steps"]
    assert made >= 8_000 - summary["steps"]
    drawn = (again.summary["updates"] - summary["updates"]) * 64
    assert drawn == pytest.approx(8 * (made - 1_000), abs=slack)
    assert again.summary["replay_ratio"] == pytest.approx(drawn / made)
