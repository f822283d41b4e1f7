"""An answer that is asked for often is found out once in a while, for all who ask."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")
_MOST = 1_000


class Recent:
    """Answers for so many ``seconds`` what it has answered before; one asks, others wait for it.

    Errors are shared, too: if a head is silent, all who wait get the same error.
    """

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._now = seconds, now
        self._lock = Lock()
        self._known: dict[Hashable, tuple[float, Future[Any]]] = {}
        self._locks: dict[Hashable, Lock] = {}

    def get(self, what: Hashable, ask: Callable[[], T]) -> T:
        """The answer to ``what``, by ``ask`` if none is recent; raises what ``ask`` raises, or has
        raised of late.
        """
        with self._lock:
            if len(self._locks) > _MOST:
                self._known.clear()
                self._locks.clear()
            lock = self._locks.setdefault(what, Lock())
        with lock:
            asked, known = self._known.get(what, (-self._seconds, None))
            if known is None or self._now() - asked >= self._seconds:
                known = Future()
                try:
                    known.set_result(ask())
                except Exception as error:
                    known.set_exception(error)
                self._known[what] = self._now(), known
        found: T = known.result()
        return found
