"""A learner's update as it is written, or compiled by torch: one run, and how long updates took.

``python -m evaluation.gpu.compiled run ppo --env PongNoFrameskip-v4 --set compile=on`` answers with
``update_ms``, the median over all updates but the first ones, in which torch compiles, and with
``first_s``, the seconds of the longest of those.
"""

from __future__ import annotations

import statistics
import sys

from evaluation.baselines.timing import answer
from evaluation.core.one_run import trained
from triggers.journal import read

_WARM_UP = 3
"""Updates that do not count: in the first torch compiles, in two more it records CUDA graphs."""


def updates(arguments: list[str]) -> list[float]:
    """Seconds of each update of a run with these arguments of ``artos``."""
    with trained(arguments) as folder:
        learned = (line for line in read(folder / "journal.jsonl") if line.get("by") == "learner")
        return [line["seconds"] for line in learned if "seconds" in line]


def main() -> None:
    """Measure once."""
    found = updates(sys.argv[1:])
    usual, first = statistics.median(found[_WARM_UP:]), max(found[:_WARM_UP])
    answer({"update_ms": 1e3 * usual, "first_s": first}, ("torch", "numpy", "gymnasium"))


if __name__ == "__main__":
    main()
