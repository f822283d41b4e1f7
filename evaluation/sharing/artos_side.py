"""One run by the ``artos`` command: how long its updates took, and what it held.

``python -m evaluation.sharing.artos_side run ppo --device pool …`` answers with ``update_s`` (mean,
from the first action to the last), ``learn_s`` (the learner's part of it), ``held_cpu_s``,
``used_cpu_s`` and ``held_device_s``.
"""

from __future__ import annotations

import sys

from evaluation.baselines.timing import answer
from evaluation.core.one_run import summary_of, trained


def run(arguments: list[str]) -> dict[str, float]:
    """Train with these arguments of ``artos``; returns the measures."""
    with trained(arguments) as folder:
        summary = summary_of(folder)
    usage, updates = summary["usage"], summary["updates"]
    return {
        "update_s": summary["seconds"] / updates,
        "learn_s": usage["device_seconds_used"] / updates,
        "held_cpu_s": usage["cpu_seconds_held"],
        "used_cpu_s": usage["cpu_seconds_used"],
        "held_device_s": usage["device_seconds_held"],
    }


def main() -> None:
    """Measure once."""
    answer(run(sys.argv[1:]), ("torch", "numpy", "gymnasium"))


if __name__ == "__main__":
    main()
