"""One run by the ``artos`` command: how long its updates took, and what it held.

``python -m evaluation.sharing.artos_side run ppo --device pool …`` answers with ``update_s`` (mean,
from the first action to the last), ``held_cpu_s``, ``used_cpu_s`` and ``held_device_s``.

With ``--ideal STEPS`` before these arguments it also answers with ``ideal_s``: what an update of
each of two such runs would take if they interleaved perfectly. A run of so many steps before tells
how much of the CPU time is that of the start.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

from evaluation.baselines.timing import answer
from evaluation.core.one_run import summary_of, trained
from evaluation.sharing.ideal import cpu_seconds, ideal


def run(arguments: Sequence[str], fewer: int = 0) -> dict[str, float]:
    """Train with these arguments of ``artos``; returns the measures.

    ``fewer``: steps of the run before; 0: without one, and without ``ideal_s``.
    """
    start = _measured([*arguments, "--total-steps", str(fewer)]) if fewer else None
    summary, cpu = _measured(arguments)
    usage = summary["usage"]
    found = {
        "update_s": summary["seconds"] / summary["updates"],
        "held_cpu_s": usage["cpu_seconds_held"],
        "used_cpu_s": usage["cpu_seconds_used"],
        "held_device_s": usage["device_seconds_held"],
    }
    if start is not None:
        cpu_of_one = (cpu - start[1]) / (summary["updates"] - start[0]["updates"])
        learn = summary["usage"]["device_seconds_used"] / summary["updates"]
        cores = len(os.sched_getaffinity(0))
        found["ideal_s"] = ideal(found["update_s"], learn, cpu_of_one, cores)
    return found


def _measured(arguments: Sequence[str]) -> tuple[dict[str, Any], float]:
    """The summary of a run, and the CPU seconds of all its processes."""
    before = cpu_seconds()
    with trained(arguments) as folder:
        return summary_of(folder), cpu_seconds() - before


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ideal", type=int, default=0, metavar="STEPS")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    answer(run(options.command, options.ideal), ("torch", "numpy", "gymnasium"))


if __name__ == "__main__":
    main()
