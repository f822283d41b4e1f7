"""The lock of a run's folder: held by the run's process; shows anyone whether the run is live."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from artos.errors import NotOurs, RunExists
from artos.system.locks import FileLock, is_held
from artos.system.private_folder import planted
from artos.system.regular_file import contents

FILE = "run.lock"


def take(folder: Path) -> FileLock:
    """Make the folder, and take its lock.

    Raises:
        RunExists: a live run has the lock.
        NotOurs: another user may have put the folder there.
    """
    if why := planted(folder):
        raise NotOurs(str(folder), why)
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # another process has just discarded the folder
            lock = FileLock.take(folder / FILE)
            break
    if lock is None:
        raise RunExists(str(folder), live=True)
    with suppress(OSError):  # on a full disk, ``owner`` does not find the process
        lock.write(str(os.getpid()))
    return lock


def is_live(folder: Path) -> bool:
    """Whether a process has the lock."""
    try:
        return is_held(folder / FILE)
    except OSError:
        return False


def owner(folder: Path) -> int | None:
    """The process that has the lock; None if there is none, or it is not visible from here."""
    try:
        pid = int(contents(folder / FILE))
        there = (folder / FILE).stat()
    except (OSError, ValueError):
        return None
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if os.path.samestat(link.stat(), there):
                    return pid if is_live(folder) else None
    return None
