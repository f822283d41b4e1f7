"""A process by descriptor: a process id may be reused by another process, a descriptor is not."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress

from artos.system.closing import Closing


class PidFd(Closing):
    """A process to wait for and to signal, whether or not it is a child of ours.

    ``fileno`` can be polled together with other descriptors: it is readable from the process's end
    on, reaped or not.
    """

    def __init__(self, pid: int) -> None:
        """Open it.

        Raises:
            ProcessLookupError: there is no process with that id.
        """
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    def fileno(self) -> int:
        """The descriptor, -1 once closed."""
        return self._descriptor

    def has_ended(self) -> bool:
        """Whether the process has ended. Never waits."""
        return self.wait(0.0)

    def wait(self, seconds: float) -> bool:
        """Sleep until the process has ended, at most ``seconds``; returns whether it has."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(max(0.0, seconds) * 1000))

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; nothing happens if it has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, number)

    def close(self) -> None:
        """Give the descriptor back; twice is fine."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def __repr__(self) -> str:
        return f"<PidFd of process {self.pid}{'' if self._descriptor >= 0 else ' closed'}>"


def has_ended(pid: int) -> bool:
    """Whether no process with that id runs; one that only waits to be reaped does not run."""
    try:
        with PidFd(pid) as process:
            return process.has_ended()
    except ProcessLookupError:
        return True
