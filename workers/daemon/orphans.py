"""Processes of ours that outlive those who started them, for as long as they have rows to send."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import psutil

from artos.system.child import readable
from artos.system.child_modules import OF_A_WORKER
from artos.system.closing import Closing


class Strays(Closing):
    """What still runs of an earlier site, told by its folder; may be waited for, then killed."""

    def __init__(self, folder: Path, end_by: float) -> None:
        self._end_by = end_by
        self.descriptors = [d for pid in _pids(f"{folder}/") if (d := _opened(pid)) is not None]

    def gone(self, now: float) -> bool:
        """Whether none is left. Those that are late are killed."""
        for descriptor in [*self.descriptors]:
            if readable(descriptor):
                os.close(descriptor)
                self.descriptors.remove(descriptor)
            elif now >= self._end_by:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        return not self.descriptors

    def close(self) -> None:
        """Wait for them no longer; twice is fine."""
        while self.descriptors:
            os.close(self.descriptors.pop())


def _pids(folder: str) -> list[int]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        ours = "-m" in words and not OF_A_WORKER.isdisjoint(words)
        if ours and any(folder in word for word in words) and process.pid != os.getpid():
            found.append(process.pid)
    return found


def _opened(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None
