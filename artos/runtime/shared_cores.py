"""A learner's threads follow what is free: with others on its cores they would wait for each other.

Threads of torch meet at the end of every operator, and spin until all of them are there. If one of
them has no CPU, the others use theirs for nothing: beside one busy process two threads on two cores
take several times as long as one thread alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from artos.system.cgroups import text

_log = logging.getLogger(__name__)

_CROWDED = 0.2
"""Share of an update that its threads wait for CPUs, above which others compute here, too."""
_FULL = 0.5
"""The same, where such an update counts twice."""
_PATIENCE = 3
"""Updates in a row, so that a moment of somebody else's changes nothing."""
_FIRST_RETRY, _LAST_RETRY = 10.0, 160.0
"""Seconds of updates with one thread before more are tried again; doubled each time in vain."""


class SharedCores:
    """Uses ``threads``, but only one while others compute on the same cores.

    ``use`` sets the number, ``waited`` says how many seconds all threads of this process have
    waited for a CPU so far.
    """

    def __init__(
        self, threads: int, use: Callable[[int], None], waited: Callable[[], float] | None = None
    ) -> None:
        self._most, self._use, self._waited = threads, use, waited or waited_for_cpus
        self.threads, self._before = threads, self._waited()
        self._crowded, self._alone, self._retry = 0, 0.0, _FIRST_RETRY

    def updated(self, seconds: float) -> None:
        """An update has taken so long."""
        waited, before = self._waited(), self._before
        self._before = waited
        if self.threads == 1:
            self._alone += seconds
            if self._alone >= self._retry:
                self._change(self._most)
            return
        share = (waited - before) / max(seconds, 1e-9)
        self._crowded = self._crowded + 1 + (share > _FULL) if share > _CROWDED else 0
        if self._crowded >= _PATIENCE:
            if self._retry == _FIRST_RETRY:
                _log.warning(
                    "others compute on these CPUs: the learner uses 1 thread instead of %d until "
                    "that changes (--set threads=N keeps N, and the last bits of the results)",
                    self._most,
                )
            self._retry = min(2 * self._retry, _LAST_RETRY)
            self._change(1)

    def _change(self, threads: int) -> None:
        self.threads, self._crowded, self._alone = threads, 0, 0.0
        self._use(threads)


def waited_for_cpus() -> float:
    """Seconds that all threads of this process were ready to run, and did not."""
    waits = (text(task / "schedstat").split() for task in Path("/proc/self/task").iterdir())
    return sum(int(wait[1]) for wait in waits if len(wait) > 1) / 1e9
