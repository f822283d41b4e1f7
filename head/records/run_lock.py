"""The lock of a run's folder: who has it is the run; anybody may look whether it is live."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from artos.errors import NotOurs, RunExists
from artos.system.private_folder import planted

FILE = "run.lock"
_FLAGS = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


def take(folder: Path) -> int:
    """Take the lock, and make the folder; the descriptor is not passed on to started programs.

    Raises:
        RunExists: a live run has it.
        NotOurs: a neighbour may have put it there.
    """
    if why := planted(folder):
        raise NotOurs(str(folder), why)
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / FILE, _FLAGS, 0o600)
        if _is_taken(lock):
            _sign(lock)
            if _is_still(folder / FILE, lock):
                return lock
        elif _is_held(lock):
            os.close(lock)
            raise RunExists(str(folder), live=True)
        os.close(lock)  # discarded between open and lock, or somebody looked at it just then


def is_live(folder: Path) -> bool:
    """Whether a process has the lock."""
    try:
        with (folder / FILE).open("rb") as file:
            return _is_held(file.fileno())
    except OSError:
        return False


def owner(folder: Path) -> int | None:
    """The process that has taken the lock; None if there is none, or none that can be seen here."""
    try:
        pid = int((folder / FILE).read_bytes())
        there = (folder / FILE).stat()
    except (OSError, ValueError):
        return None
    open_there = ((each.st_dev, each.st_ino) for each in _opened(pid))
    return pid if (there.st_dev, there.st_ino) in open_there and is_live(folder) else None


def _is_taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_held(lock: int) -> bool:
    """Whether a run has it; who only looks shares it, and disturbs nobody else who looks."""
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _sign(lock: int) -> None:
    """Write down whose it is, for who wants to stop the run."""
    with suppress(OSError):  # without room nobody is told
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return path.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False


def _opened(pid: int) -> Iterator[os.stat_result]:
    """The files that a process has open."""
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                yield link.stat()
