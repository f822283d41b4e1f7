"""Where shared memory is on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from artos.errors import Refused
from artos.system import private_folder

_VARIABLE = "ARTOS_SHM"
MOST = "ARTOS_SHM_BYTES"


def shm_root() -> Path:
    """The shared-memory filesystem, /dev/shm unless ``ARTOS_SHM`` names another.

    Raises:
        Refused: it is not a folder that can be written, or others can rename what we make there.
    """
    root = named_root()
    if why := _unfit(root):
        then = f"have {_VARIABLE} name a folder of yours in memory by its absolute path"
        raise Refused([f"shared memory cannot be in {root}: {why}; {then}"])
    return root


def named_root() -> Path:
    """Where shared memory is to be, whether or not it can be there."""
    return Path(os.environ.get(_VARIABLE) or "/dev/shm")


def allowed_bytes(folder: Path) -> int | None:
    """Bytes that may be taken in all in the filesystem of ``folder``; None: all that it has.

    ``ARTOS_SHM_BYTES`` says how many, of shared memory, where something is lost before that is
    full: Kubernetes evicts a pod that has more there than its volume's limit.

    Raises:
        Refused: that is no number.
    """
    if not (most := os.environ.get(MOST)):
        return None
    if not most.isdecimal():
        raise Refused([f"{MOST} is {most!r}: write a number of bytes"])
    return int(most) if folder.stat().st_dev == named_root().stat().st_dev else None


def free_bytes(folder: Path) -> int:
    """Bytes that may still be allocated in the filesystem of ``folder``, in memory or not."""
    stat = os.statvfs(folder)
    free = stat.f_bavail * stat.f_frsize
    if (allowed := allowed_bytes(folder)) is None:
        return free
    taken = (stat.f_blocks - stat.f_bfree) * stat.f_frsize
    return max(0, min(free, allowed - taken))


def _unfit(root: Path) -> str:
    if not root.is_absolute():
        return "its path is not absolute"
    if not os.path.isdir(root):  # noqa: PTH112 (Path.is_dir raises where a parent is closed)
        return "it is not a folder" if os.path.lexists(root) else "there is no such folder"
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        return "it cannot be written"
    return private_folder.planted(root) or private_folder.loose(root)
