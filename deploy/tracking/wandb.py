"""Weights & Biases. Its own variables say where to: ``WANDB_MODE=offline``, ``WANDB_ENTITY``."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from head.records.tracker import INTERRUPTED, Classes, Tracked, Tracker, edges

_STEP = "run/steps"


class WeightsAndBiases(Tracker):
    """A run of W&B; charts have environment steps below."""

    def __init__(self, tracked: Tracked) -> None:
        import wandb  # noqa: PLC0415

        self.id = tracked.id or secrets.token_hex(4)
        self._histogram = wandb.Histogram
        self._run = wandb.init(
            project=tracked.project, name=tracked.name, id=self.id, resume="allow",
            config=dict(tracked.settings), allow_val_change=True, save_code=False,
        )  # fmt: skip
        self._run.define_metric("*", step_metric=_STEP)

    def on_progress(self, step: int, values: Mapping[str, float]) -> None:
        """Log a row."""
        self._run.log({**values, _STEP: step})

    def on_histogram(self, step: int, name: str, counts: Classes) -> None:
        """Log a histogram."""
        histogram = self._histogram(np_histogram=([*counts.values()], edges(counts)))
        self._run.log({name: histogram, _STEP: step})

    def on_artifact(self, path: Path) -> None:
        """Add it to the run's files."""
        self._run.save(str(path), base_path=str(path.parent), policy="now")

    def close(self, outcome: str) -> None:
        """Wait until all is sent."""
        self._run.finish(exit_code=0 if outcome in ("", "done", INTERRUPTED) else 1)
