"""How a member ended, as told to the process that decides whether it is started again."""

from __future__ import annotations

import signal
from dataclasses import dataclass

_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)

SLOW = "it hangs in user code; if it is only slow, raise --deadline"

START_SECONDS = 120.0
"""The least time that a process has to import and build user code."""


@dataclass(frozen=True)
class ExitReport:
    """One end of a member."""

    why: str
    """A traceback or a description."""
    step: int | None = None
    """How far the member got; None if it could not say."""
    own: bool = True
    """Whether the member itself failed (it raised, hung or crashed); else a signal ended it."""
    fatal: bool = False
    """Whether another attempt would end the same way."""
    asked_by: tuple[int, ...] | None = None
    """Of a server that is on several nodes: the actors where it ended. None: all who ask it."""

    @classmethod
    def of_process(cls, pid: int, status: int, last_output: str) -> ExitReport:
        """The end of a process: ``status`` as ``subprocess`` gives it, negative for a signal."""
        how = f"killed by signal {-status}" if status < 0 else f"ended with exit status {status}"
        if status == -signal.SIGKILL:
            how += " (if no one did that, memory ran out: use fewer actors or smaller batches)"
        said = f"; its last output:\n{last_output}" if last_output else ""
        return cls(f"process {pid} {how}{said}", own=status not in _FROM_OUTSIDE)
