"""Where the time of a thread goes besides computing: in the queue for a CPU, or blocked."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class ThreadTime(NamedTuple):
    """Seconds of this thread since some time in the past: passed, on a CPU, and queued for one."""

    passed: float
    computed: float
    queued: float

    @classmethod
    def now(cls) -> ThreadTime:
        """Read the kernel's counters; one without them says that none were queued."""
        passed = time.perf_counter()
        with suppress(OSError, ValueError):
            # Nanoseconds on a CPU, nanoseconds in the queue for one, number of turns.
            computed, queued, _ = Path("/proc/thread-self/schedstat").read_text().split()
            return cls(passed, int(computed) / 1e9, int(queued) / 1e9)
        return cls(passed, time.thread_time(), 0.0)

    def since(self, before: ThreadTime) -> ThreadTime:
        """What was added since then."""
        return ThreadTime(*(now - then for now, then in zip(self, before, strict=True)))

    @property
    def blocked(self) -> float:
        """Seconds in which it neither computed nor waited for a CPU, but e.g. for a disk."""
        return max(0.0, self.passed - self.computed - self.queued)
