"""Time as a dependency: code that waits or measures time asks a ``Clock``; tests control it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

LONGEST = 1e8
"""The longest deadline or delay in seconds: three years, for which every clock can wait."""


class Clock(ABC):
    """A source of monotonic seconds."""

    @abstractmethod
    def now(self) -> float:
        """Monotonic time in seconds; only differences mean anything."""

    def leave_out(self, seconds: float) -> None:
        """Do not count ``seconds`` that have just passed, if this clock can leave time out."""
        del seconds


class SystemClock(Clock):
    """The machine's monotonic clock, shared by all processes of one boot."""

    def now(self) -> float:
        """Seconds since an arbitrary point, never stepping backwards."""
        return time.monotonic()


class WakingClock(Clock):
    """A clock that leaves out the time during which its process was stopped (``leave_out``).

    If a whole container was paused, all its processes were stopped, and no deadline was missed.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock, self._left_out = clock or SystemClock(), 0.0

    def now(self) -> float:
        """Seconds since an arbitrary point, without the time left out."""
        return self._clock.now() - self._left_out

    def leave_out(self, seconds: float) -> None:
        """Time from now on is without these seconds, too."""
        self._left_out += seconds


class ManualClock(Clock):
    """A clock that only moves when told to: for tests and for replaying a journal."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        """The time last set."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move time forward by ``seconds`` (must not be negative)."""
        if seconds < 0:
            raise ValueError(f"time cannot go back by {-seconds} s")
        self._now += seconds


class Deadline:
    """A point in time after which a wait gives up."""

    def __init__(self, seconds: float, clock: Clock | None = None) -> None:
        self.seconds = seconds
        self._clock = clock or SystemClock()
        self._end = self._clock.now() + seconds

    @property
    def left(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._end - self._clock.now())

    @property
    def passed(self) -> bool:
        """Whether time is up."""
        return self._clock.now() >= self._end
