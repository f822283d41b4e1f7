"""The folder that CRIU makes for a moment where a dumped process works, removed if it is left.

To look into a PID namespace CRIU has the process itself mount ``/proc`` on ``proc.crtools`` in its
working directory. Killed just then it leaves that behind, and no dump would succeed there again.
Two dumps of processes that work in one directory may want it in the same moment: one fails.
"""

from __future__ import annotations

import ctypes
import os
import time
from contextlib import suppress
from pathlib import Path

_NAME = "proc.crtools"
_TAKEN = "Can't create a directory (-17)"
_DETACH, _NO_FOLLOW = 2, 8
_MOMENT = 1.0


def is_collision(log: str) -> bool:
    """Whether a dump failed, as its log says, for the folder was there: to be tried again."""
    return _TAKEN in log


def remove_left(folder: Path, moment: float = _MOMENT) -> bool:
    """Remove it from a working directory unless it is younger than a ``moment`` (seconds).

    A younger one may belong to a dump that goes on. Returns whether there was one to remove.
    """
    path = folder / _NAME
    try:
        about = path.lstat()
    except OSError:
        return False
    if about.st_uid != os.geteuid() or 0 <= time.time() - about.st_ctime < moment:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    libc.umount2(os.fsencode(path), _DETACH | _NO_FOLLOW)  # if it is mounted
    with suppress(OSError):
        path.rmdir()
    return not path.exists()
