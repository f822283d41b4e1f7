"""Iterations of sampling, moving and learning, as measured by a contestant's head.

The head of a contestant is a process that talks to the benchmark: it prints a mark when the
measured part begins and when it ends, and waits for a line on its input after each mark.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping

from evaluation.pipelining.stand_in_learner import Learning

BEGIN, END = "begin", "end"
"""The marks."""
WARM_UP = 2
STEP_SECONDS = 1.2e-3
"""Seconds of a step of Pong on a core of its own: 0.4 ms of emulator, 0.8 ms of network.
Sampling is a pause of this length per step, as 16 actors would run on other machines."""

Lap = Mapping[str, float]
"""The seconds of one iteration, by measure."""


def iterate(lap: Callable[[], Lap], count: int, *, marked: bool) -> dict[str, float]:
    """The medians of ``count`` laps after a warm-up; ``marked``: print marks around them."""
    for _ in range(WARM_UP):
        lap()
    if marked:
        mark(BEGIN)
    laps = [lap() for _ in range(count)]
    if marked:
        mark(END)
    return {name: statistics.median(lap[name] for lap in laps) for name in laps[0]}


def mark(text: str) -> None:
    """Print a mark and wait until the benchmark has read its counters."""
    print(text, flush=True)
    if not sys.stdin.readline():
        raise SystemExit("the benchmark is gone")


class Stopwatch:
    """Times one iteration: the end of sampling, the arrival of all rounds, the end.

    Sampling is a pause of ``steps`` steps at the start.
    """

    def __init__(self, learning: Learning, steps: int) -> None:
        self._learning = learning
        self._seconds, self._cpu = learning.seconds, learning.cpu_seconds
        self._began = time.perf_counter()
        time.sleep(steps * STEP_SECONDS)
        self._ready = self._arrived = time.perf_counter()

    def arrived(self) -> None:
        """All rounds can be read by the learner."""
        self._arrived = time.perf_counter()

    def ended(self) -> dict[str, float]:
        """The learner is done; returns the times of the iteration.

        ``transfer_s``: from the end of sampling until all rounds had arrived; ``wait_s``: time
        after sampling in which the learner did not work; ``iteration_s``: the whole iteration;
        ``sample_s``: sampling; ``learning_cpu_s``: CPU-seconds of the learner's work.
        """
        end = time.perf_counter()
        busy = self._learning.seconds - self._seconds
        return {
            "transfer_s": self._arrived - self._ready,
            "wait_s": end - self._ready - busy,
            "iteration_s": end - self._began,
            "sample_s": self._ready - self._began,
            "learning_cpu_s": self._learning.cpu_seconds - self._cpu,
        }
