"""The CPUs of a worker: several workers on one machine, of whichever users, take different ones."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from artos.system.closing import Closing
from artos.system.locks import FileLock
from artos.system.shm import shm_root

_PREFIX = "artos-cpu-"
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_READABLE = 0o444
_ATTEMPTS = 10
"""At a mark that others remove meanwhile: another user must not hold us up by that."""


class OwnCpus(Closing):
    """So many of the ``usable`` CPUs, those that no other worker has if possible.

    Each is marked by a locked file in shared memory, which belongs to one machine. All users can
    read each other's marks, and so lock them. Nobody writes to one, and what another user puts in
    place of it, or keeps locked, costs a worker no more than having that CPU for itself.
    """

    def __init__(self, usable: Sequence[int], count: int) -> None:
        self._usable, self._count, self._folder = usable, count, shm_root()
        self._marks: dict[int, FileLock] = {}

    def now(self) -> tuple[int, ...]:
        """The CPUs in order; those that were shared are exchanged for others that are free now."""
        for cpu in self._usable:
            if len(self._marks) == self._count:
                break
            if cpu not in self._marks and (mark := _locked(self._mark(cpu), create=True)):
                self._marks[cpu] = mark
        return tuple(sorted((*self._marks, *self.shared)))

    @property
    def shared(self) -> tuple[int, ...]:
        """Those that other workers have, too, as there were not enough."""
        others = [cpu for cpu in self._usable if cpu not in self._marks]
        return tuple(others[: self._count - len(self._marks)])

    def close(self) -> None:
        """Leave them to others, with those of workers that were killed."""
        marks, self._marks = self._marks, {}
        for cpu, mark in marks.items():
            with mark, suppress(OSError):  # another user's may stay
                self._mark(cpu).unlink()
        tidy(self._folder)

    def _mark(self, cpu: int) -> Path:
        return self._folder / f"{_PREFIX}{cpu}"


def tidy(folder: Path | None = None) -> list[Path]:
    """Remove the marks of workers that were killed, if they were this user's; returns which."""
    removed = []
    for path in (folder or shm_root()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if left := _locked(path):
                with left:
                    path.unlink()
                removed.append(path)
    return removed


def _locked(path: Path, *, create: bool = False) -> FileLock | None:
    """The lock of a mark; None if another worker has it, or there can be none."""
    with suppress(OSError):
        for _ in range(_ATTEMPTS):
            with suppress(FileNotFoundError, FileExistsError), ExitStack() as stack:
                mark = stack.enter_context(FileLock(_opened(path, create)))
                fcntl.flock(mark.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(path.lstat(), os.fstat(mark.fileno())):
                    stack.pop_all()
                    return mark
    return None


def _opened(path: Path, create: bool) -> int:
    try:
        return os.open(path, _FLAGS)
    except FileNotFoundError:
        if not create:
            raise
    made = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, _READABLE)
    os.fchmod(made, _READABLE)  # whatever the umask
    return made
