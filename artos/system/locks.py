"""Locks of files, kept by the kernel: a lock is released once its last holder ends."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from artos.clock import Deadline
from artos.system.closing import Closing

_FLAGS = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
_PAUSE_SECONDS = 0.005
"""Between two attempts of a process that waits: ``flock`` has no deadline of its own."""
_CHECK_SECONDS = 5.0
"""A check that takes this long counts as holding the lock: checks take microseconds."""


class FileLock(Closing):
    """An exclusive lock (``flock``) of a file, which stays when the lock is released.

    It belongs to the open file, so a process that inherits the descriptor holds it too, and it is
    released when the last of them has closed it. ``is_held`` checks without keeping others from it.
    """

    def __init__(self, descriptor: int) -> None:
        """Adopt the descriptor of a lock that was taken, here or by the parent process."""
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: Path, *, create: bool = True, seconds: float = 0.0) -> Self | None:
        """The lock of the file at ``path``; None if another has it for all of ``seconds``.

        Raises:
            OSError: the file cannot be opened or made, or is missing and ``create`` is false.
        """
        deadline, patience = Deadline(seconds), Deadline(seconds + _CHECK_SECONDS)
        flags = _FLAGS | (os.O_CREAT if create else 0)
        while True:
            lock = cls(os.open(path, flags, 0o600))
            if _locked(lock.fileno(), fcntl.LOCK_EX):
                with suppress(FileNotFoundError):
                    if os.path.samestat(path.lstat(), os.fstat(lock.fileno())):
                        return lock
            elif deadline.passed and (patience.passed or not _locked(lock.fileno(), fcntl.LOCK_SH)):
                lock.close()
                return None
            lock.close()  # the file has just been replaced, or another process was checking it
            time.sleep(_PAUSE_SECONDS)

    def fileno(self) -> int:
        """The descriptor, -1 once closed; started programs do not inherit it unless told to."""
        return self._descriptor

    def read(self) -> str:
        """What the last holder wrote into the file, "" if nothing."""
        return os.pread(self._descriptor, 200, 0).decode(errors="replace")

    def write(self, text: str) -> None:
        """Write the holder's name into the file, replacing what is there.

        Raises:
            OSError: there is no room.
        """
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text.encode(), 0)

    def close(self) -> None:
        """Release it, unless another holds it too; twice is fine."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


def is_held(path: Path) -> bool:
    """Whether the file at ``path`` is locked; does not keep another process from locking it.

    Raises:
        OSError: the file cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return not _locked(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _locked(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
