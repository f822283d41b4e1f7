"""The CPUs of a worker: several workers of a user on one machine take different ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from artos.system import private_folder
from artos.system.closing import Closing
from artos.system.locks import FileLock
from artos.system.shm import shm_root


class OwnCpus(Closing):
    """So many of the ``usable`` CPUs, those that no other worker has if possible.

    Each is marked by a locked file in shared memory, which belongs to one machine.
    """

    def __init__(self, usable: Sequence[int], count: int) -> None:
        self._usable, self._count, self._folder = usable, count, _folder()
        self._marks: dict[int, FileLock] = {}

    def now(self) -> tuple[int, ...]:
        """The CPUs in order; those that were shared are exchanged for others that are free now."""
        for cpu in self._usable:
            if len(self._marks) == self._count:
                break
            if cpu not in self._marks and (mark := _mark(self._folder, cpu)):
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
            with suppress(OSError):
                (self._folder / str(cpu)).unlink()
            mark.close()
        tidy(self._folder)


def tidy(folder: Path | None = None) -> list[Path]:
    """Remove the marks of workers that were killed, and the folder with the last; returns which."""
    folder, removed = folder or _folder(), list[Path]()
    if not private_folder.is_ours(folder):
        return []
    with suppress(OSError):  # another worker may remove the folder, or what is in it
        for path in folder.iterdir():
            with suppress(OSError):
                if left := FileLock.take(path, create=False):
                    with left:
                        path.unlink()
                    removed.append(path)
        folder.rmdir()  # if it is empty
    return removed


def _folder() -> Path:
    return shm_root() / f"artos-cpus-{os.geteuid()}"


def _mark(folder: Path, cpu: int) -> FileLock | None:
    """The mark of a CPU; None if another worker has it, or none can be made."""
    while True:
        with suppress(FileNotFoundError):  # the last worker has just removed the folder
            try:
                private_folder.keep(folder)
                return FileLock.take(folder / str(cpu))
            except FileNotFoundError:
                raise
            except OSError:  # also NotOurs
                return None
