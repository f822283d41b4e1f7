"""Iterations of sampling, moving and learning as a contestant's head measures them.

The head of a contestant is a process that talks to the benchmark: a line with a mark on its
output when the measured part begins and when it ends, each answered by a line on its input.
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
"""What a step of Pong takes an actor with a core of its own: 0.4 ms of emulator, 0.8 ms of network.
Sampling is a pause of so many of these, as the cores of 16 actors would be elsewhere."""

Lap = Mapping[str, float]
"""What one iteration took, in seconds by measure."""


def iterate(lap: Callable[[], Lap], count: int, *, marked: bool) -> dict[str, float]:
    """The medians of ``count`` laps after a warm-up; ``marked`` says when they begin and end."""
    for _ in range(WARM_UP):
        lap()
    if marked:
        mark(BEGIN)
    laps = [lap() for _ in range(count)]
    if marked:
        mark(END)
    return {name: statistics.median(lap[name] for lap in laps) for name in laps[0]}


def mark(text: str) -> None:
    """Report the present mark and wait until the benchmark has taken note."""
    print(text, flush=True)
    if not sys.stdin.readline():
        raise SystemExit("the benchmark is gone")


class Stopwatch:
    """Times one iteration: sampling ends and data are ``ready``, all ``arrived``, ``ended``.

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
        """The learner is done: what the iteration took.

        ``transfer_s`` until all rounds were there; ``wait_s`` that the learner did not work though
        rounds were sampled; ``iteration_s`` from the start of sampling, ``sample_s`` until its end;
        ``learning_cpu_s`` CPU-seconds of the learner's work.
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
