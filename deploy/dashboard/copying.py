"""Copies from a head that threads of their own make: nobody who asks waits for a long one."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from threading import Lock, Thread, current_thread

from artos.clock import Deadline
from artos.system.closing import Closing

_MOST = 1_000
_END_SECONDS = 1.0


class Copying(Closing):
    """Makes copies, each by a thread; of those that ended less than ``seconds`` ago no new one.

    Who asks waits for one for ``patience`` seconds at most.
    """

    def __init__(
        self, seconds: float, patience: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds, self._patience, self._now = seconds, patience, now
        self._lock = Lock()
        self._known: dict[Hashable, Future[float]] = {}
        """When each ended, or why it failed."""
        self._threads: set[Thread] = set()

    def is_done(self, what: Hashable, copy: Callable[[], object]) -> bool:
        """Whether there is a new copy of ``what``, which ``copy`` makes; raises what that raises.

        If not, it is under way: ask again.
        """
        with self._lock:
            known = self._known.get(what)
            if known is None or self._is_old(known):
                if len(self._known) >= _MOST:
                    self._known = {w: each for w, each in self._known.items() if not each.done()}
                known = self._known[what] = Future()
                thread = Thread(target=self._make, args=(known, copy), daemon=True)
                self._threads.add(thread)
                thread.start()
        if wait([known], self._patience).not_done:
            return False
        known.result()
        return True

    def _is_old(self, known: Future[float]) -> bool:
        if not known.done():
            return False
        return known.exception() is not None or self._now() - known.result() >= self._seconds

    def _make(self, known: Future[float], copy: Callable[[], object]) -> None:
        try:
            copy()
        except BaseException as error:
            known.set_exception(error)
        else:
            known.set_result(self._now())
        with self._lock:
            self._threads.discard(current_thread())

    def close(self) -> None:
        """Give those that are under way a moment to end; the process does not wait for others."""
        deadline = Deadline(_END_SECONDS)
        with self._lock:
            threads = [*self._threads]
        for thread in threads:
            thread.join(deadline.left)
