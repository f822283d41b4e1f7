"""Temporal training and uniform replay (paper Tables 1 and 3), end to end."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from real_runs import Outcome, journal

from artos.runs.checkpoint import read_manifest
from head.records.progress_log import read_history

pytestmark = pytest.mark.processes


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.parametrize(
    ("mode", "max_lag", "pattern"),
    [((), 0, "true"), (("--inline",), 3, "false")],
    ids=["processes", "inline"],
)
def test_no_row_older_than_max_lag_is_learned_from(
    mode: tuple[str, ...], max_lag: int, pattern: str, artos: Callable[..., Outcome], home: Path
) -> None:
    shutil.copy(Path(__file__).with_name("replaying.py"), home)
    settings = ("--set", f"max_lag={max_lag}", "--set", f"prioritised={pattern}")
    outcome = artos("run", "replaying.py:replayed", "--json", "--run-dir", "off", *settings, *mode)
    assert outcome.status == 0, outcome.err
    summary = outcome.summary
    assert summary["steps"] >= 6_000, "actors go on although the ratio cannot be kept"
    assert summary["lag_max"] <= max_lag
    assert sum(summary["lag_histogram"].values()) == 64 * summary["updates"]
    assert 0 < summary["replay_ratio"] == 64 * summary["updates"] / summary["steps"]
    assert 0 < summary["rows_stale"] <= summary["steps"]
    empty = [line for line in journal(home / "off") if "nothing" in line]
    assert len(empty) == summary["empty_draws"] > 0
    assert "max_lag leaves out" in empty[0]["nothing"]
    assert "the next one waits for new rows" in (home / "off" / "logs" / "run.log").read_text()
    assert summary["progress"]["rows_stale"] == summary["rows_stale"]


@pytest.mark.long
@pytest.mark.parametrize("mode", [(), ("--inline",)], ids=["processes", "inline"])
def test_a_run_may_be_limited_by_updates_alone(
    mode: tuple[str, ...], artos: Callable[..., Outcome], home: Path
) -> None:
    """The function of this workload knows nothing of ``total_updates``: every workload has it."""
    shutil.copy(Path(__file__).with_name("replaying.py"), home)
    limits = ("--total-steps", "0", "--total-updates", "150")
    outcome = artos("run", "replaying.py:replayed", "--json", "--run-dir", "off", *limits, *mode)
    assert outcome.status == 0, outcome.err
    summary = outcome.summary
    assert (summary["updates"], summary["ended_by"]) == (150, "total_updates")
    lines = journal(home / "off")
    fired = {line["firing"] for line in lines if line.get("trigger") == "learner.update"}
    assert fired == {line["done"] for line in lines if line.get("by") == "learner"}
    assert summary["steps"] > 1_000
    again = artos("run", "--resume", "off", "--json", "--total-updates", "200", *mode)
    assert again.status == 0, again.err
    assert (again.summary["updates"], again.summary["ended_by"]) == (200, "total_updates")
    assert again.summary["steps"] > summary["steps"]


@pytest.mark.long
def test_actors_give_their_rows_first_priorities(artos: Callable[..., Outcome], home: Path) -> None:
    shutil.copy(Path(__file__).with_name("replaying.py"), home)
    outcome = artos("run", "replaying.py:surprised", "--json", "--run-dir", "off")
    assert outcome.status == 0, outcome.err
    assert outcome.summary["updates"] == 40
    metrics = read_history(home / "off" / "progress.csv")[-1]
    assert 0 < float(metrics["metrics/first_weight"]) < 0.9, "1 if all priorities were the same"


KEEPING = """
from dataclasses import replace

import numpy as np
from counting import Bookkeeper
from counting import workload as counting

from artos import Workload


class Keeping(Bookkeeper):
    def setup(self, context):
        super().setup(context)
        self.blocks, self.copied = context.blocks, []

    def update(self, batch, call):
        for actors, versions in self.copied:
            self.blocks[0].drawn.note(actors, versions)
        versions = batch.versions()
        actors = np.repeat([claim.actor for claim in batch.claims], versions.shape[1])
        self.copied.append((actors, versions.flatten()))
        return super().update(batch, call)


def workload() -> Workload:
    return replace(counting(2, 320), name="keeping", learner=Keeping())
"""


def test_rows_that_a_learner_copied_are_as_old_as_it_says(
    artos: Callable[..., Outcome], home: Path
) -> None:
    """Each update learns from all rows so far, of which 32 are new."""
    (home / "keeping.py").write_text(KEEPING)
    outcome = artos("run", "keeping.py:workload", "--inline", "--json", "--run-dir", "off")
    assert outcome.status == 0, outcome.err
    summary = outcome.summary
    assert summary["updates"] == 10
    assert summary["lag_max"] == 9
    assert sum(summary["lag_histogram"].values()) == 32 * sum(range(1, 11))
    assert {each["rows"] for each in summary["lag_by_actor"].values()} == {16 * sum(range(1, 11))}
