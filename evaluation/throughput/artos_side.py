"""One training run by the ``artos`` command: its steps per second and the time by activity.

``python -m evaluation.throughput.artos_side run ppo --env CartPole-v1 --total-steps 200000``
answers with ``steps_per_second``, from the first action to the last, without start-up, and with
``seconds.ACTIVITY``, summed over the processes.
"""

from __future__ import annotations

import sys
import time

from evaluation.baselines.timing import answer
from evaluation.core.one_run import summary_of, trained
from evaluation.core.runner import TIMES


def run(arguments: list[str]) -> dict[str, float]:
    """Train with these arguments of ``artos``; returns rates and the seconds by activity.

    Raises:
        SystemExit: the run failed, or was held up by restarts or lost rows.
    """
    start = time.perf_counter()
    with trained(arguments) as folder:
        taken, summary = time.perf_counter() - start, summary_of(folder)
    restarts, lost = summary["restarts"], summary["rows_lost"]
    if restarts or lost:
        raise SystemExit(f"not to be counted: restarts {restarts}, rows lost {lost}")
    times = {f"{TIMES}{name}": value for name, value in summary["times"].items()}
    began = taken - summary["seconds"]
    return {
        "steps_per_second": summary["steps_per_second"],
        f"{TIMES}start and stop": began,
    } | times


def main() -> None:
    """Measure once."""
    answer(run(sys.argv[1:]), ("torch", "numpy", "gymnasium"))


if __name__ == "__main__":
    main()
