"""Runs one command and leaves no process behind: ``python guard.py SECONDS COMMAND ...``.

Baselines start daemons in sessions of their own (Ray) or workers that outlive a crash (Sample
Factory), so killing a process group is not enough. The guard is the subreaper of all processes that
the command starts, directly or not, and ends them when the command ends, when the time is up, or
when its own parent dies. Exit status: the command's, or 124 after the deadline.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import psutil

TIMED_OUT = 124
LEAVE_SECONDS = 5.0
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def guard(seconds: float, command: Sequence[str]) -> int:
    """Run ``command`` for at most ``seconds``; its exit status, once all its processes are gone."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    signal.signal(signal.SIGTERM, _leave)
    process = subprocess.Popen(command)
    ended = {process.pid}
    try:
        status = process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return TIMED_OUT
    else:
        psutil.wait_procs(_descendants(), timeout=LEAVE_SECONDS)
        return status
    finally:
        ended |= end_descendants()
        # Torch names shared tensors after their creator; its daemon unlinks them if it lives.
        for owner in ended:
            for path in Path("/dev/shm").glob(f"torch_{owner}_*"):
                path.unlink(missing_ok=True)


def end_descendants() -> set[int]:
    """Kill and reap descendants of this process until none is left; returns their ids."""
    ended: set[int] = set()
    while found := _descendants():
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(found, timeout=LEAVE_SECONDS)
        ended |= {process.pid for process in found}
    return ended


def _descendants() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(guard(float(sys.argv[1]), sys.argv[2:]))
