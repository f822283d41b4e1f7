"""Trackers beside a run: what becomes of them is told, and the run goes on."""

from __future__ import annotations

from pathlib import Path

from artos.clock import ManualClock
from deploy.tracking.alongside import Alongside
from head.records.run_folder import LOGS


def test_a_tracker_that_cannot_be_started_is_told_and_ends_nothing(tmp_path: Path) -> None:
    """Its log cannot be opened here; there may be no process left to start, too."""
    (tmp_path / LOGS / "track-wandb.log").mkdir(parents=True)
    with Alongside(("wandb", "mlflow"), ManualClock()) as trackers:
        (tmp_path / LOGS / "track-mlflow.log").mkdir()
        trackers.begin(tmp_path)
        assert trackers.due, "it is told while the run goes on"
        first, second = trackers.faults()
        assert first.startswith("tracker wandb has failed; the run goes on without it: ")
        assert "Is a directory" in first
        assert f"artos track {tmp_path} --to mlflow" in second
        assert not trackers.due
        assert not [*trackers.rest()]
