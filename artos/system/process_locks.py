"""Numbered locks on a file that show that a process lives: kept by the kernel, never inherited.

These are POSIX record locks (``F_SETLK``), one byte each. Unlike ``flock`` and ``F_OFD_SETLK`` they
belong to a process, not to an open file: a forked child does not keep them, whatever it inherits,
and the kernel drops them when their process ends, however it ends. Any process may ask who has one.

They have one trap: a process loses all its locks on a file as soon as it closes any descriptor of
that file. So a process opens each such file only here, and only once.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
from pathlib import Path

from artos.system.closing import Closing

_FLOCK = struct.Struct("hhqqi4x")  # type, whence, start, length, process: 64-bit Linux
_FIND, _OPEN = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, os.O_RDWR | os.O_CLOEXEC

_opened: dict[tuple[int, int], ProcessLocks] = {}
_guard = threading.Lock()


class ProcessLocks(Closing):
    """The locks on one file. All users in a process share one object; the last closes it."""

    def __init__(self, key: tuple[int, int], descriptor: int) -> None:
        self._key, self._descriptor, self._users = key, descriptor, 0
        self._mine: set[int] = set()

    @classmethod
    def of(cls, path: Path) -> ProcessLocks:
        """The locks on the file at ``path``.

        Raises:
            OSError: it cannot be opened.
        """
        found = os.open(path, _FIND)
        try:
            return cls.over(found)
        finally:
            os.close(found)

    @classmethod
    def over(cls, found: int) -> ProcessLocks:
        """The locks on a file that was ``found`` (a descriptor opened with ``O_PATH``).

        Raises:
            OSError: it cannot be opened.
        """
        with _guard:
            about = os.fstat(found)
            key = (about.st_dev, about.st_ino)
            if (locks := _opened.get(key)) is None:
                locks = _opened[key] = cls(key, os.open(f"/proc/self/fd/{found}", _OPEN))
            locks._users += 1
            return locks

    def fileno(self) -> int:
        """The descriptor of the file: to be mapped, not to be closed."""
        return self._descriptor

    def is_of(self, path: Path | str, folder: int | None = None) -> bool:
        """Whether the file is still the one at ``path``, which may be relative to a folder's."""
        try:
            about = os.stat(path, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return (about.st_dev, about.st_ino) == self._key

    def take(self, number: int) -> bool:
        """Take a lock; False if it is taken, here or elsewhere."""
        if number in self._mine:
            return False
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_SETLK, self._request(fcntl.F_WRLCK, number))
        except (BlockingIOError, PermissionError):
            return False
        self._mine.add(number)
        return True

    def take_all(self, most: int) -> bool:
        """Take the first ``most`` locks, to be kept until ``close``; False if any is taken."""
        if self._mine:
            return False
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_SETLK, self._request(fcntl.F_WRLCK, 0, most))
        except (BlockingIOError, PermissionError):
            return False
        return True

    def drop(self, number: int) -> None:
        """Give a lock back; no error if it is not ours."""
        if number in self._mine and self._descriptor >= 0:
            fcntl.fcntl(self._descriptor, fcntl.F_SETLK, self._request(fcntl.F_UNLCK, number))
        self._mine.discard(number)

    def holder(self, number: int) -> int | None:
        """The process that has a lock; None if none has, 0 if it is in another PID namespace."""
        if number in self._mine:
            return os.getpid()
        asked = fcntl.fcntl(self._descriptor, fcntl.F_GETLK, self._request(fcntl.F_WRLCK, number))
        kind, _, _, _, pid = _FLOCK.unpack(asked)
        return None if kind == fcntl.F_UNLCK else max(0, pid)

    def close(self) -> None:
        """Use it no longer; the last user of the process gives all its locks back."""
        with _guard:
            self._users -= 1
            if self._users == 0 and self._descriptor >= 0:
                _opened.pop(self._key, None)
                descriptor, self._descriptor = self._descriptor, -1
                os.close(descriptor)

    @staticmethod
    def _request(kind: int, number: int, count: int = 1) -> bytes:
        return _FLOCK.pack(kind, os.SEEK_SET, number, count, 0)


def _after_fork() -> None:
    """A child has none of its parent's locks, and what it closes does not affect the parent."""
    global _guard  # noqa: PLW0603 (another thread may have held it)
    _guard = threading.Lock()
    for locks in _opened.values():
        os.close(locks._descriptor)
        locks._descriptor = -1
        locks._mine.clear()
    _opened.clear()


os.register_at_fork(after_in_child=_after_fork)
