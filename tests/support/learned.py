"""What a run has learned, read so that a policy which unlearns for a while is not called untrained.

Off-policy learners and those whose actors go on meanwhile are never twice alike, and fall back for
some episodes; the mean of the last ones would say whether the run ended in such a moment.
"""

from pathlib import Path

import numpy as np

from head.records.episodes import Episodes


def best_mean(run_folder: Path, window: int) -> float:
    """The best mean return of so many episodes one after the other; refused if there are fewer."""
    returns = Episodes.read(run_folder / "episodes.csv").returns
    assert len(returns) >= window, f"{run_folder} holds {len(returns)} episodes only"
    return float(np.convolve(returns, np.full(window, 1 / window), "valid").max())
