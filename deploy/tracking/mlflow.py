"""MLflow. ``MLFLOW_TRACKING_URI`` says where to; by default to the folder ``mlruns`` here."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

from head.records.tracker import INTERRUPTED, Classes, Tracked, Tracker, edges

_STATUS = {"": "RUNNING", "done": "FINISHED", INTERRUPTED: "KILLED"}
_FORBIDDEN = re.compile(r"[^\w\-. /:]")
_ABSOLUTE = re.compile(r"/|file:/|sqlite:////|databricks|(?!file:|sqlite:)[\w+.-]+:")
_SHARES = (10, 50, 90, 99)
_LONGEST, _AT_ONCE = 500, 100
"""Characters of a parameter, and how many it takes at a time."""


class MLflow(Tracker):
    """A run of an experiment that is called as the project."""

    def __init__(self, tracked: Tracked) -> None:
        uri = _uri()
        if uri.startswith("file:"):  # which its small package can, and is asked for here
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        from mlflow.entities import Metric, Param  # noqa: PLC0415
        from mlflow.tracking import MlflowClient  # noqa: PLC0415

        self._metric, self._client = Metric, MlflowClient(uri)
        self.id = tracked.id
        if self.id:
            self._client.set_terminated(self.id, _STATUS[""])
            return
        known = self._client.get_experiment_by_name(tracked.project)
        experiment = (
            known.experiment_id if known else self._client.create_experiment(tracked.project)
        )
        self.id = self._client.create_run(experiment, run_name=tracked.name).info.run_id
        params = [Param(_name(k), str(v)[:_LONGEST]) for k, v in tracked.settings.items()]
        for at in range(0, len(params), _AT_ONCE):
            self._client.log_batch(self.id, params=params[at : at + _AT_ONCE])

    def on_progress(self, step: int, values: Mapping[str, float]) -> None:
        """Log a row."""
        now = time.time_ns() // 1_000_000
        metrics = [self._metric(_name(name), value, now, step) for name, value in values.items()]
        for at in range(0, len(metrics), _AT_ONCE):
            self._client.log_batch(self.id, metrics=metrics[at : at + _AT_ONCE])

    def on_histogram(self, step: int, name: str, counts: Classes) -> None:
        """Log where most of it lies, as MLflow has no histograms."""
        self.on_progress(step, {f"{name}/p{share}": _below(counts, share) for share in _SHARES})

    def on_artifact(self, path: Path) -> None:
        """Add it to the run's artefacts."""
        self._client.log_artifact(self.id, str(path))

    def close(self, outcome: str) -> None:
        """Say how it ended."""
        self._client.set_terminated(self.id, _STATUS.get(outcome, "FAILED"))


def place() -> str:
    """Where it keeps runs: an address, with the working directory if it is relative to that."""
    uri = _uri()
    return uri if _ABSOLUTE.match(uri) else f"{uri} in {Path.cwd().as_uri()}"


def _uri() -> str:
    return os.environ.get("MLFLOW_TRACKING_URI") or (Path.cwd() / "mlruns").as_uri()


def _below(counts: Classes, share: int) -> float:
    """Below what so many percent lie, as if they were even within their class."""
    wanted = sum(counts.values()) * share / 100
    for (first, last), count in counts.items():
        if count >= wanted:
            return first + (last - first) * wanted / count if count else first
        wanted -= count
    return max(edges(counts))


def _name(name: str) -> str:
    return _FORBIDDEN.sub("_", name)
