"""Wakes a loop that sleeps on something other than descriptors when its pool has news."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable

from artos.pool.pool import Pool
from artos.system.closing import Closing


class Ringer(Closing):
    """A thread that calls ``ring`` once there is news of a pool, each time after ``arm``.

    It touches nothing of the pool but its descriptor, and is to be closed before the pool.
    """

    def __init__(self, pool: Pool, ring: Callable[[], None]) -> None:
        self._stop, self._stopping = os.eventfd(0, os.EFD_CLOEXEC), False
        self._descriptors, self._ring = (pool.fileno(), self._stop), ring
        self._armed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="pool-ringer", daemon=True)
        self._thread.start()

    def arm(self) -> None:
        """Have it ring at the next news, or at once if there is some that was not taken yet."""
        self._armed.set()

    def _watch(self) -> None:
        poll = select.poll()
        for descriptor in self._descriptors:
            poll.register(descriptor, select.POLLIN)
        while not self._stopping:
            self._armed.wait()
            self._armed.clear()
            poll.poll()
            if not self._stopping:
                self._ring()

    def close(self) -> None:
        """End the thread; twice is fine."""
        if self._stopping:
            return
        self._stopping = True
        os.eventfd_write(self._stop, 1)
        self._armed.set()
        self._thread.join()
        os.close(self._stop)
