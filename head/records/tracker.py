"""What an experiment tracker is told of a run. TensorBoard is one; others are in ``deploy``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INTERRUPTED = "interrupted"
Classes = Mapping[tuple[float, float], int]
"""How many there are from a first value to below the first one of the next class."""


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
        """Log finite numbers, by the names that ``scalars`` gives, at their row's ``place``."""

    @abstractmethod
    def on_histogram(self, step: int, name: str, counts: Classes) -> None:
        """Log how many there were in each class since the last time.

        Classes lie side by side, in order, and there is at least one.
        """

    @abstractmethod
    def on_artifact(self, path: Path) -> None:
        """Keep a copy of a file of the run, if the tracker can show files of its kind."""

    @abstractmethod
    def close(self, outcome: str) -> None:
        """Send what is left: the run is ``done``, ``interrupted`` or ``failed``; "": not over."""


def edges(counts: Classes) -> list[float]:
    """Where its classes begin, and where the last one ends."""
    return [first for first, _ in counts] + [last for _, last in counts][-1:]
