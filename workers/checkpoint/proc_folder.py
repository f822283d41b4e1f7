"""Removes the folder ``proc.crtools`` if CRIU left it in a dumped process's working directory.

To look into a PID namespace, CRIU has the process itself mount ``/proc`` on that folder for a
moment. If CRIU is killed just then the folder stays, and no dump would succeed there again. Two
dumps of processes with one working directory may need the folder at the same moment: one fails.
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
    """Whether a dump failed because the folder existed, as its log says; it can be tried again."""
    return _TAKEN in log


def remove_left(folder: Path, moment: float = _MOMENT) -> bool:
    """Remove CRIU's folder from a working directory, unless it is younger than ``moment`` seconds.

    A younger folder may belong to a dump under way. Returns whether a folder was removed.
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
