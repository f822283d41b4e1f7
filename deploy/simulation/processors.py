"""The CPUs of one machine, on a simulated clock: who computes, and how fast."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from deploy.simulation.timeline import Timeline


class Processors:
    """``count`` CPUs that share themselves out equally among all that compute (processor sharing).

    So nobody is slowed down while no more compute than there are CPUs.
    """

    def __init__(self, count: int, timeline: Timeline) -> None:
        self._count, self._timeline = count, timeline
        self._jobs: list[tuple[float, int, Callable[[], None]]] = []
        self._worked, self._at = 0.0, 0.0  # seconds that a job since the beginning would have got
        self._added = self._planned = 0

    def compute(self, seconds: float, do: Callable[[], None]) -> None:
        """Have something done once so many seconds of a CPU were spent on it."""
        self._advance()
        self._added += 1
        heapq.heappush(self._jobs, (self._worked + max(0.0, seconds), self._added, do))
        self._plan()

    @property
    def _speed(self) -> float:
        return min(1.0, self._count / max(1, len(self._jobs)))

    def _advance(self) -> None:
        now = self._timeline.clock.now()
        self._worked += (now - self._at) * self._speed
        self._at = now

    def _plan(self) -> None:
        """Look again when the next one is done, unless something has changed by then."""
        self._planned += 1
        planned = self._planned

        def look() -> None:
            if planned == self._planned:
                self._advance()
                _, _, do = heapq.heappop(self._jobs)
                self._plan()
                do()

        if self._jobs:
            left = (self._jobs[0][0] - self._worked) / self._speed
            self._timeline.after(left, look)

    def __repr__(self) -> str:
        return f"<Processors {len(self._jobs)} compute on {self._count}>"
