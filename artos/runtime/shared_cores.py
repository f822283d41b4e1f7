"""A learner's threads follow what is free: with others on its cores they would wait for each other.

Threads of torch meet at the end of every operator, and spin until all of them are there. If one of
them has no CPU, the others use theirs for nothing: beside one busy process two threads on two cores
take several times as long as one thread alone. So a learner has one core, which is what a lease of
a CPU device stands for, and beyond that only cores that nobody uses: actors on their slots, and
other learners, are counted by what they use.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from artos.system.free_cpus import CpuMeter, Measured, left_by_others

_LOOK_SECONDS = 0.05
"""Between two looks, which take about 0.1 ms: the kernel counts in steps of 0.01 s."""
_DECIDE_SECONDS = 0.2
"""Of updates, after which the number is decided again."""
_TO_BEGIN, _TO_GO_ON = 0.2, 0.4
"""The share of a core that others may use where a thread is to have it, or has it already."""


def threads_for(free: float, now: int, most: int) -> int:
    """How many threads are right where others leave so many CPUs ``free``, after ``now``."""
    more, kept = int(free + _TO_BEGIN), int(free + _TO_GO_ON)
    return max(1, min(most, more if more > now else min(now, kept)))


class SharedCores:
    """Uses one thread, and up to ``most`` while others leave the cores for them.

    ``use`` sets the number. What others use between two updates, such as this run's own actors,
    does not count.
    """

    def __init__(
        self,
        most: int,
        use: Callable[[int], None],
        measure: Callable[[], Measured] | None = None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._most, self._use, self._now = most, use, now
        self._measure = measure or CpuMeter()
        self.threads, self._left, self._seconds = 1, 0.0, 0.0
        self._last = self._measure()
        use(1)

    def begin(self) -> None:
        """An update begins."""
        if self._now() - self._last.at >= _LOOK_SECONDS:
            self._last = self._measure()

    def look(self) -> None:
        """Decide again if it is time to; cheap, and to be called often during an update."""
        if self._now() - self._last.at < _LOOK_SECONDS:
            return
        last, self._last = self._last, self._measure()
        self._left += left_by_others(last, self._last)
        self._seconds += self._last.at - last.at
        if self._seconds < _DECIDE_SECONDS:
            return
        threads = threads_for(min(self._left / self._seconds, self._most), self.threads, self._most)
        self._left = self._seconds = 0.0
        if threads != self.threads:
            self.threads = threads
            self._use(threads)
