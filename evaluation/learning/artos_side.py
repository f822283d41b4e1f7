"""One training run by the ``artos`` command: how well it learned.

``python -m evaluation.learning.artos_side 0 500 run ppo --env CartPole-v1 --seed 1`` answers with
scores, which are returns scaled to 0 for the lowest possible and 1 for the highest: ``final`` over
the episodes that ended in the last tenth of the steps, ``whole`` over all steps equally, so that
learning sooner counts.
"""

from __future__ import annotations

import sys

import numpy as np

from evaluation.baselines.timing import answer
from evaluation.core.one_run import trained
from head.records.episodes import Episodes, Floats

PARTS = 10


def scores(steps: Floats, returns: Floats, low: float, high: float) -> dict[str, float]:
    """Scores from the steps at which episodes ended, ascending, and their returns.

    A part of the run in which no episode ended counts as the part before it.
    """
    part = steps * PARTS // (steps[-1] + 1)
    means: list[float] = []
    for number in range(PARTS):
        inside = returns[part == number]
        means.append(float(inside.mean()) if len(inside) else (means or [low])[-1])
    share = (np.array(means) - low) / (high - low)
    return {"final": float(share[-1]), "whole": float(share.mean())}


def run(arguments: list[str], low: float, high: float) -> dict[str, float]:
    """Train with these arguments of ``artos``; returns the scores."""
    with trained(arguments) as folder:
        episodes = Episodes.read(folder / "episodes.csv")
    return scores(episodes.steps, episodes.returns, low, high)


def main() -> None:
    """Train once."""
    low, high, *arguments = sys.argv[1:]
    answer(run(arguments, float(low), float(high)), ("torch", "numpy", "gymnasium"))


if __name__ == "__main__":
    main()
