"""Wakes a loop that does not sleep on descriptors when something happens in its pool."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable

from artos.pool.pool import Pool
from artos.system.closing import Closing


class PoolListener(Closing):
    """A thread that calls ``wake_loop`` once something happens in a pool, each time after ``arm``.

    It touches nothing of the pool but its descriptor, and is to be closed before the pool.
    """

    def __init__(self, pool: Pool, wake_loop: Callable[[], None]) -> None:
        self._stop, self._stopping = os.eventfd(0, os.EFD_CLOEXEC), False
        self._descriptors, self._wake_loop = (pool.fileno(), self._stop), wake_loop
        self._armed = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="pool-listener", daemon=True)
        self._thread.start()

    def arm(self) -> None:
        """Wake the loop the next time, or at once if something has happened already."""
        self._armed.set()

    def _listen(self) -> None:
        poll = select.poll()
        for descriptor in self._descriptors:
            poll.register(descriptor, select.POLLIN)
        while not self._stopping:
            self._armed.wait()
            self._armed.clear()
            poll.poll()
            if not self._stopping:
                self._wake_loop()

    def close(self) -> None:
        """End the thread; twice is fine."""
        if self._stopping:
            return
        self._stopping = True
        os.eventfd_write(self._stop, 1)
        self._armed.set()
        self._thread.join()
        os.close(self._stop)
