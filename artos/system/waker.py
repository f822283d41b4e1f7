"""What a daemon sleeps on: its messengers, signals, and children that end wake it."""

from __future__ import annotations

import os
import select
from collections.abc import Iterable
from contextlib import suppress

from artos.system.closing import Closing


class Waker(Closing):
    """Many ring, one waits; rings are never lost. Ringing is safe in threads and handlers."""

    def __init__(self) -> None:
        self._rung = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def ring(self) -> None:
        """Wake the waiter, or make its next wait return at once; nothing once it is closed."""
        if self._rung >= 0:
            os.eventfd_write(self._rung, 1)

    def wait(self, seconds: float, also: Iterable[int] = ()) -> bool:
        """Sleep until rung or one of the descriptors can be read, at most ``seconds``.

        Returns whether it was rung or one could be read.
        """
        poll = select.poll()
        for descriptor in (self._rung, *also):
            poll.register(descriptor, select.POLLIN)
        ready = poll.poll(max(0.0, seconds) * 1000)
        with suppress(BlockingIOError):
            os.eventfd_read(self._rung)
        return bool(ready)

    def close(self) -> None:
        """Give the descriptor back; twice is fine."""
        if self._rung >= 0:
            rung, self._rung = self._rung, -1
            os.close(rung)
