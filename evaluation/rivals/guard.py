"""Runs one command and leaves nothing behind: ``python guard.py SECONDS COMMAND ...``.

Rivals start daemons in sessions of their own (Ray) or spawn workers that outlive a crash (Sample
Factory), so killing a process group is not enough. The guard is the reaper of all that the command
starts, directly or not, and ends every one of them when the command ends, when the time is up, or
when its own parent dies. Exit status: the command's, or 124 after the deadline.
"""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType

import psutil

TIMED_OUT = 124
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def guard(seconds: float, command: Sequence[str]) -> int:
    """Run ``command`` for at most ``seconds``; returns its exit status once nothing of it is left."""
    _become_reaper()
    try:
        return subprocess.run(command, timeout=seconds, check=False).returncode
    except subprocess.TimeoutExpired:
        return TIMED_OUT
    finally:
        end_descendants()


def end_descendants() -> None:
    """Kill every descendant of this process and reap it, until there are none."""
    while found := psutil.Process().children(recursive=True):
        for process in found:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(found, timeout=10)


def _become_reaper() -> None:
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    signal.signal(signal.SIGTERM, _leave)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(guard(float(sys.argv[1]), sys.argv[2:]))
