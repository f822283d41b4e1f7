"""Trackio: into its own folder on this machine (``TRACKIO_DIR``); `trackio show` shows it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from head.records.tracker import Classes, Tracked, Tracker, edges


class Trackio(Tracker):
    """A run of Trackio; two of one project must not have one name, so part of ``id`` is added."""

    def __init__(self, tracked: Tracked) -> None:
        import trackio  # noqa: PLC0415

        self.id = tracked.id or f"{tracked.name}-{secrets.token_hex(2)}"
        self._trackio = trackio
        self._run = trackio.init(
            project=tracked.project, name=self.id, config=dict(tracked.settings),
            resume="allow", embed=False, auto_log_gpu=False, auto_log_cpu=False,
        )  # fmt: skip

    def on_progress(self, step: int, values: Mapping[str, float]) -> None:
        """Log a row."""
        self._trackio.log(dict(values), step=step)

    def on_histogram(self, step: int, name: str, counts: Classes) -> None:
        """Log a histogram."""
        histogram = self._trackio.Histogram(np_histogram=([*counts.values()], edges(counts)))
        self._trackio.log({name: histogram}, step=step)

    def on_artifact(self, path: Path) -> None:
        """Add it to the run's artefacts."""
        self._trackio.log_artifact(path, name=path.name, type="file")

    def close(self, outcome: str) -> None:
        """Wait until all is written."""
        self._trackio.finish()
