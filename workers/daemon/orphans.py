"""Processes that outlive the executor that started them, while they have rows to send."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

from artos.system.child_modules import OF_A_WORKER
from artos.system.closing import Closing
from artos.system.process_list import find


class Orphans(Closing):
    """What is left of an earlier executor's processes: they are waited for, then killed."""

    def __init__(self, folder: Path, end_by: float) -> None:
        self._end_by, self._folder = end_by, f"{folder}/"
        self._processes = [*find(self._is_orphan)]

    @property
    def descriptors(self) -> list[int]:
        """Descriptors that become readable when one of the processes has ended."""
        return [process.fileno() for process in self._processes]

    def gone(self, now: float) -> bool:
        """Whether no process is left. After ``end_by`` those left are killed."""
        for process in [*self._processes]:
            if process.has_ended():
                process.close()
                self._processes.remove(process)
            elif now >= self._end_by:
                process.signal(signal.SIGKILL)
        return not self._processes

    def close(self) -> None:
        """Stop waiting for the processes. May be called twice."""
        while self._processes:
            self._processes.pop().close()

    def _is_orphan(self, words: Sequence[str]) -> bool:
        ours = "-m" in words and not OF_A_WORKER.isdisjoint(words)
        return ours and any(self._folder in word for word in words)
