"""What an experiment tracker is told of a run; each is one file beside this one."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artos.errors import Refused

NAMES = ("wandb", "mlflow", "trackio")
"""They are also the names of their packages, and of the extras that bring these."""
INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Tracked:
    """A run as trackers know it. ``id`` is the tracker's own for it, "" at the first time."""

    name: str
    project: str
    settings: Mapping[str, Any]
    """Hyper-parameters, and what else there is to reproduce the run, one level deep."""
    id: str = ""


class Tracker(ABC):
    """A run in a tracker. Whatever it raises ends the tracking alone."""

    id: str
    """By this it is found again when the run is resumed."""

    @abstractmethod
    def on_progress(self, step: int, values: Mapping[str, float]) -> None:
        """Log finite numbers, by the names that TensorBoard has, at an environment step."""

    @abstractmethod
    def on_histogram(self, step: int, name: str, counts: Mapping[tuple[float, float], int]) -> None:
        """Log how many there were in each class, from its first value to the next class's."""

    @abstractmethod
    def on_artifact(self, path: Path) -> None:
        """Keep a copy of a file of the run."""

    @abstractmethod
    def close(self, outcome: str) -> None:
        """Send what is left: the run is ``done``, ``interrupted`` or ``failed``; "": not over."""


def require(name: str) -> None:
    """Check that a tracker of that name can be used.

    Raises:
        Refused: it is not known, or its package is missing.
    """
    if name not in NAMES:
        raise Refused([f"there is no tracker {name!r}: choose {', '.join(NAMES)}"])
    if importlib.util.find_spec(name) is None:
        raise Refused([f"{name} needs its package: pip install 'artos[{name}]'"])


def opened(name: str, tracked: Tracked) -> Tracker:
    """The run in the tracker of that name; raises what ``require`` raises."""
    require(name)
    if name == "wandb":
        from deploy.tracking.wandb import WeightsAndBiases  # noqa: PLC0415

        return WeightsAndBiases(tracked)
    if name == "mlflow":
        from deploy.tracking.mlflow import MLflow  # noqa: PLC0415

        return MLflow(tracked)
    from deploy.tracking.trackio import Trackio  # noqa: PLC0415

    return Trackio(tracked)
