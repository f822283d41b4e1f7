"""Time as a dependency: everything that waits or stamps asks a ``Clock``, so tests can own time."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

LONGEST = 1e8
"""Seconds that may be asked for, of a deadline or a delay: three years, as every clock can wait."""


class Clock(ABC):
    """A source of monotonic seconds."""

    @abstractmethod
    def now(self) -> float:
        """Monotonic time in seconds; only differences mean anything."""

    def leave_out(self, seconds: float) -> None:
        """Have these seconds, which have just passed, not count, if this clock can do that."""
        del seconds


class SystemClock(Clock):
    """The machine's monotonic clock, shared by all processes of one boot."""

    def now(self) -> float:
        """Seconds since an arbitrary point, never stepping backwards."""
        return time.monotonic()


class WakingClock(Clock):
    """A clock without the times for which its process was stopped, as far as that was noticed.

    Others were stopped with it, if it was a container that was paused; nobody is to be blamed.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock, self._left_out = clock or SystemClock(), 0.0

    def now(self) -> float:
        """Seconds since an arbitrary point, without what was left out."""
        return self._clock.now() - self._left_out

    def leave_out(self, seconds: float) -> None:
        """See ``Clock.leave_out``."""
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
