"""How much of the machine the processes below this one use, from moment to moment."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

LOOK_SECONDS = 0.5


class Utilisation:
    """``seconds`` since watching began, and the percent of all ``cores`` used until then."""

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.seconds: list[float] = []
        self.percent: list[float] = []
        self._over = threading.Event()
        self._used: dict[int, float] = {}

    def end(self) -> None:
        """Watch no more."""
        self._over.set()

    def watch(self) -> None:
        """Look until the end."""
        began = before = time.monotonic()
        self._look()
        while not self._over.wait(LOOK_SECONDS):
            spent, now = self._look(), time.monotonic()
            self.seconds.append(now - began)
            self.percent.append(100 * spent / (self.cores * (now - before)))
            before = now

    def _look(self) -> float:
        """CPU-seconds used since the last look, by processes that are still there."""
        spent, seen = 0.0, dict[int, float]()
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                seen[process.pid] = sum(process.cpu_times()[:2])
                spent += max(0.0, seen[process.pid] - self._used.get(process.pid, 0.0))
        self._used = seen
        return spent


@contextmanager
def watched(cores: int) -> Iterator[Utilisation]:
    """Watch while the block runs."""
    found = Utilisation(cores)
    thread = threading.Thread(target=found.watch, name="utilisation", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.end()
        thread.join()
