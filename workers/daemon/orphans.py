"""Processes that outlive the executor that started them, while they have rows to send."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from artos.system.child_modules import OF_A_WORKER
from artos.system.closing import Closing
from artos.system.pidfd import PidFd
from artos.system.process_list import find


class Orphans(Closing):
    """What is left of an earlier executor's processes: they are waited for, then killed."""

    def __init__(self, folder: Path, end_by: float) -> None:
        self._end_by, self._processes = end_by, list[PidFd]()
        logs = folder.resolve() / "logs"
        for process in find(_is_of_a_worker):
            # The command line of one restored from an image that was moved names another node.
            if any(logs in output.parents for output in _outputs(process.pid)):
                self._processes.append(process)
            else:
                process.close()

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


def _is_of_a_worker(words: Sequence[str]) -> bool:
    return "-m" in words and not OF_A_WORKER.isdisjoint(words)


def _outputs(pid: int) -> set[Path]:
    """The files that a process's output goes to; none if it has ended, or its user forbids it."""
    with suppress(OSError):
        return {Path(f"/proc/{pid}/fd/{number}").readlink() for number in (1, 2)}
    return set()
