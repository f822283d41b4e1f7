"""One off-policy run by the ``artos`` command: its pace, and how often rows were drawn.

``python -m evaluation.replay.artos_side run sac --total-steps 2000`` answers with
``steps_per_second`` and ``update_ms``, from the first action to the last, and ``replay_ratio``.
"""

from __future__ import annotations

import sys

from evaluation.baselines.timing import answer
from evaluation.core.one_run import summary_of, trained


def run(arguments: list[str]) -> dict[str, float]:
    """Train with these arguments of ``artos``; returns the rates."""
    with trained(arguments) as folder:
        summary = summary_of(folder)
    return {
        "steps_per_second": summary["steps_per_second"],
        "update_ms": 1e3 * summary["seconds"] / summary["updates"],
        "replay_ratio": summary["replay_ratio"],
    }


def main() -> None:
    """Measure once."""
    answer(run(sys.argv[1:]), ("torch", "numpy", "gymnasium"))


if __name__ == "__main__":
    main()
