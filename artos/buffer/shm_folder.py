"""The folder of a run's files in shared memory: locked by its owner, reaped when orphaned."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path

from artos.system import private_folder
from artos.system.locks import FileLock, is_held
from artos.system.pidfd import PidFd
from artos.system.shm import shm_root

PREFIX = "artos."
IMAGES = "images"
"""In a run's folder, the name of its actors' images, or of a link to them."""
MOVING = f"{IMAGES}-moving"
"""In a run's own folder, the name of the folder of images that are between two nodes."""
_NAME_BYTES = 100
"""Bytes of a run's name that its folder's name has, which may have at most 255."""
_MEMBER = b"artos.runtime."
"""Part of the command line of every process that a run starts for user code."""


class ShmFolder:
    """The folder of one run's segments, locked for as long as its owner lives.

    The kernel drops the lock when its owner ends, also after SIGKILL, so a process that can take
    the lock of a folder knows that the folder is orphaned.
    """

    def __init__(self, path: Path, lock: FileLock) -> None:
        self.path, self._lock = path, lock

    @classmethod
    def create(cls, name: str) -> ShmFolder:
        """Make and lock a new folder for the run ``name``; orphans are reaped first."""
        reap_orphans()
        short = os.fsencode(name)[:_NAME_BYTES].decode(errors="ignore")
        path = private_folder.make(shm_root(), f"{PREFIX}{short}.")
        lock = FileLock.take(path / "owner")
        assert lock is not None  # the folder was just made: nobody else knows of it
        return cls(path, lock)

    @property
    def lock(self) -> int:
        """The lock's descriptor: a process that inherits it keeps the folder from being reaped."""
        return self._lock.fileno()

    def remove(self) -> None:
        """Delete the folder with every segment in it, and images. Doing it twice is fine."""
        _remove(self.path)
        self._lock.close()


def reap_orphans() -> list[Path]:
    """Remove the folders whose owner is dead, and their images; live runs are never touched.

    Members that still use such a folder are killed: most end with their owner by themselves, but
    a member that was being restored from an image at that moment may have outlived it.
    """
    reaped = []
    for path in shm_root().glob(f"{PREFIX}*"):
        if not private_folder.is_fresh(path, PREFIX):
            continue  # a user's own
        if private_folder.is_ours(path) and _is_orphan(path):
            for process in Path("/proc").iterdir():
                # Members that map or hold open a file in the folder, but no program of the user's.
                if not process.name.isdecimal() or int(process.name) == os.getpid():
                    continue
                # Opened before it is examined: later another process may have this process id.
                with suppress(ProcessLookupError), PidFd(int(process.name)) as member:
                    if _uses(process, f"{path}/"):
                        member.signal(signal.SIGKILL)
            reaped += _remove(path)
    return reaped


def _remove(folder: Path) -> list[Path]:
    """Delete the images that a run's folder links to, then the folder; returns what was deleted."""
    images = folder / IMAGES
    linked = [images.readlink()] if images.is_symlink() else []
    return [path for path in (*filter(holds_images, linked), folder) if private_folder.remove(path)]


def holds_images(path: Path) -> bool:
    """Whether a folder has such a name as we give to folders of images."""
    return re.fullmatch(rf"{IMAGES}-[0-9a-f]+|{MOVING}", path.name) is not None


def _uses(process: Path, prefix: str) -> bool:
    try:
        if process.stat().st_uid != os.getuid():
            return False
        if _MEMBER not in (process / "cmdline").read_bytes():
            return False
        opened = (str(entry.readlink()) for entry in (process / "fd").iterdir())
        return prefix in (process / "maps").read_text() or any(
            name.startswith(prefix) for name in opened
        )
    except OSError:
        return False  # it just ended, or belongs to another user


def _is_orphan(path: Path) -> bool:
    try:
        held = is_held(path / "owner")
    except FileNotFoundError:
        # Either a run is just starting, between mkdir and lock, or half removed: age decides.
        return _is_older(path, 60.0)
    # A folder is locked right after its lock file appears; a new run may be at that point.
    return not held and _is_older(path, 0.1)


def _is_older(path: Path, seconds: float) -> bool:
    try:
        age = time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return False
    return not 0 <= age <= seconds  # in the future: the time of day was set back since
