"""One run of GRPO by the ``artos`` command: updates until its texts were right.

``python -m evaluation.tokens.artos_side --lag 1 --seed 1 --most 150``
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from evaluation.baselines.one_file_grpo import LAG, REACHED
from evaluation.baselines.timing import answer
from evaluation.core.one_run import trained
from evaluation.tokens import counted


def run(lag: int, seed: int, most: int) -> dict[str, float]:
    """Train for ``most`` updates; returns what the reference does."""
    words = ["run", f"{Path(counted.__file__)}:workload", "--seed", str(seed)]
    words += ["--total-updates", str(most), "--set", f"max_lag={lag}"]
    with trained(words) as folder, (folder / "progress.csv").open() as file:
        *_, last = csv.DictReader(file)
    return told(last)


def told(last: dict[str, str]) -> dict[str, float]:
    """The answer, from the last row of a run's progress."""
    reached = float(last[f"metrics/{counted.REACHED}"])
    return {LAG: float(last["lag_mean"])} | ({REACHED: reached} if reached else {})


def main() -> None:
    """Train once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lag", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--most", type=int, required=True)
    options = parser.parse_args()
    answer(run(options.lag, options.seed, options.most), ("torch", "numpy", "gymnasium"))


if __name__ == "__main__":
    main()
