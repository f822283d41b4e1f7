"""One off-policy run by the ``artos`` command: its pace, and what its members did meanwhile.

``python -m evaluation.replay.artos_side --due 1900 run sac --total-steps 2000`` answers with
``updates_per_second`` and ``update_ms``, from the first action to the last update, and with
``seconds.ACTIVITY``, summed over the processes. A run that has not made the updates that were due
is refused.
"""

from __future__ import annotations

import argparse

from evaluation.baselines.timing import answer
from evaluation.core.one_run import summary_of, trained
from evaluation.core.runner import TIMES
from evaluation.replay.cases import as_asked


def run(due: int, arguments: list[str]) -> dict[str, float]:
    """Train with these arguments of ``artos``; returns the rates, and the seconds by activity."""
    with trained(arguments) as folder:
        summary = summary_of(folder)
    updates, seconds = as_asked(summary["updates"], due), summary["seconds"]
    rates = {"updates_per_second": updates / seconds, "update_ms": 1e3 * seconds / updates}
    return rates | {f"{TIMES}{name}": value for name, value in summary["times"].items()}


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--due", type=int, required=True, help="updates")
    options, arguments = parser.parse_known_args()
    answer(run(options.due, arguments), ("torch", "numpy", "gymnasium"))


if __name__ == "__main__":
    main()
