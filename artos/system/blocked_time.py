"""Time that a thread was blocked: it neither computed nor waited for a CPU, but e.g. for a disk."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path


def not_blocked() -> float:
    """Seconds for which this thread has computed, or was ready to compute, since it began."""
    with suppress(OSError, ValueError):  # a kernel need not keep them
        # Nanoseconds on a CPU, nanoseconds in the queue for one, number of turns.
        on_cpu, queued, _ = Path("/proc/thread-self/schedstat").read_text().split()
        return (int(on_cpu) + int(queued)) / 1e9
    return time.thread_time()


class BlockedTime:
    """Measures how long this thread is blocked from now on; made and asked in the same thread."""

    def __init__(self) -> None:
        self._at, self._not = time.perf_counter(), not_blocked()

    def seconds(self) -> float:
        """Seconds for which it was blocked since."""
        passed = time.perf_counter() - self._at
        return max(0.0, passed - (not_blocked() - self._not))
