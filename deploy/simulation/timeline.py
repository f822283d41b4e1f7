"""Simulated time: what is to happen, in order."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from artos.clock import Clock


class SimulatedClock(Clock):
    """Moves from one event to the next."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        """Seconds since the simulation began."""
        return self.time


class Timeline:
    """Events by time; of equal times the one that was added first. ``count`` of them are over."""

    def __init__(self) -> None:
        self.clock, self.count = SimulatedClock(), 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._added = 0

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        """Have something done so many seconds from now."""
        self._added += 1
        heapq.heappush(self._events, (self.clock.time + max(0.0, seconds), self._added, do))

    def run(self, settle: Callable[[], None]) -> None:
        """Let everything happen; ``settle`` is called after each event."""
        while self._events:
            self.clock.time, _, do = heapq.heappop(self._events)
            self.count += 1
            do()
            settle()

    def __repr__(self) -> str:
        return f"<Timeline {self.clock.time:.3f} s, {len(self._events)} events to come>"
