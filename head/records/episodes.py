"""Finished episodes, from which the learning curve is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from artos.system.regular_file import contents
from head.records.reading import reading

HEADER, AGENT = "step,return,length", ",agent"
"""Columns of every file, and one more where the environment is a game of agents."""
WINDOW = 100
"""Episodes in the running mean; the environments' reward thresholds refer to 100."""

Floats = NDArray[np.float64]


class Ended(NamedTuple):
    """An episode: environment steps of the run when it ended, its return, its length."""

    steps: int
    value: float
    length: int
    agent: str = ""
    """Whose it was in a game."""


def ended_of(row: Mapping[str, str]) -> Ended:
    """The episode of a row of ``episodes.csv``."""
    steps, length = int(row["step"]), int(row["length"])
    return Ended(steps, float(row["return"]), length, row.get("agent") or "")


class Episodes:
    """All episodes of a run in the order they ended; float64 columns of equal length.

    ``agents`` are the names of those that they were of in a game, else empty.
    """

    def __init__(
        self, steps: Floats, returns: Floats, lengths: Floats, agents: Sequence[str] = ()
    ) -> None:
        self.steps = steps  # of the whole run, when each episode was reported
        self.returns, self.lengths, self.agents = returns, lengths, agents

    @classmethod
    def read(cls, path: Path) -> Episodes:
        """Read ``episodes.csv``; a missing file means no episodes, a partial row is left out."""
        with reading(path):
            lines = contents(path).split(b"\n")[1:-1] if path.exists() else []
            cells = [line.split(b",", 3) for line in lines]
            rows = np.array([row[:3] for row in cells], np.float64).reshape(len(lines), 3)
            agents = [row[3].decode() for row in cells if len(row) > 3]
        return cls(rows[:, 0], rows[:, 1], rows[:, 2], agents)

    def __len__(self) -> int:
        return len(self.steps)

    def running_mean(self, window: int = WINDOW) -> Floats:
        """Mean return over each episode and ``window - 1`` before it, shape ``(len(self),)``.

        NaN where one of these returns is not finite.
        """
        finite = np.isfinite(self.returns)
        total = np.concatenate(([0.0], np.cumsum(np.where(finite, self.returns, 0.0))))
        amiss = np.concatenate(([0], np.cumsum(~finite)))
        stop = np.arange(1, len(self) + 1)
        start = np.maximum(0, stop - window)
        means: Floats = (total[stop] - total[start]) / (stop - start)
        return np.where(amiss[stop] > amiss[start], np.nan, means)

    def __repr__(self) -> str:
        return f"<Episodes {len(self)}>"
