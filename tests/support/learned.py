"""What a run has learned, read so that a policy which unlearns for a while is not called untrained.

Off-policy learners and those whose actors go on meanwhile are never twice alike, and fall back for
some episodes; the mean of the last ones would say whether the run ended in such a moment.
"""

import signal
import time
from pathlib import Path

import numpy as np
from real_runs import Artos

from head.records.episodes import Episodes

_LOOK_SECONDS = 0.5
_MOST_SECONDS = 540.0
"""A run ends once it has made its steps, which takes minutes where others learn meanwhile."""


def best_mean(run_folder: Path, window: int) -> float:
    """The best mean return of so many episodes one after the other; -inf if there are fewer."""
    returns = Episodes.read(run_folder / "episodes.csv").returns
    if len(returns) < window:
        return -np.inf
    return float(np.convolve(returns, np.full(window, 1 / window), "valid").max())


def learned(run: Artos, run_folder: Path, window: int, bar: float) -> bool:
    """Whether the best mean reaches ``bar``; the run is stopped as by Ctrl-C once it has."""
    try:
        end = time.monotonic() + _MOST_SECONDS
        while run.process.poll() is None and best_mean(run_folder, window) < bar:
            assert time.monotonic() < end, f"{best_mean(run_folder, window)}\n{run.said}"
            time.sleep(_LOOK_SECONDS)
        run.signal(signal.SIGINT)
        outcome = run.wait()
        assert outcome.status in (0, 128 + signal.SIGINT), outcome.err
        return best_mean(run_folder, window) >= bar
    finally:
        run.end()
