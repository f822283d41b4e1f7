"""Finished episodes, from which the learning curve is drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from artos.system.regular_file import contents
from head.records.reading import reading

HEADER = "step,return,length"
WINDOW = 100
"""Episodes in the running mean; the environments' reward thresholds refer to 100."""

Floats = NDArray[np.float64]


class Episodes:
    """All episodes of a run in the order they ended; float64 columns of equal length."""

    def __init__(self, steps: Floats, returns: Floats, lengths: Floats) -> None:
        self.steps = steps  # of the whole run, when each episode was reported
        self.returns, self.lengths = returns, lengths

    @classmethod
    def read(cls, path: Path) -> Episodes:
        """Read ``episodes.csv``; a missing file means no episodes, a partial row is left out."""
        with reading(path):
            lines = contents(path).split(b"\n")[1:-1] if path.exists() else []
            cells = [line.split(b",") for line in lines]
            rows = np.array(cells, np.float64).reshape(len(lines), 3)
        return cls(rows[:, 0], rows[:, 1], rows[:, 2])

    def __len__(self) -> int:
        return len(self.steps)

    def running_mean(self, window: int = WINDOW) -> Floats:
        """Mean return over each episode and ``window - 1`` before it, shape ``(len(self),)``."""
        total = np.concatenate(([0.0], np.cumsum(self.returns)))
        stop = np.arange(1, len(self) + 1)
        start = np.maximum(0, stop - window)
        means: Floats = (total[stop] - total[start]) / (stop - start)
        return means

    def __repr__(self) -> str:
        return f"<Episodes {len(self)}>"
