"""Opens regular files only: reading a FIFO or a device in place of a file might never end."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal

_FLAGS = {
    "rb": os.O_RDONLY, "r+b": os.O_RDWR, "ab": os.O_WRONLY | os.O_APPEND | os.O_CREAT,
}  # fmt: skip


@contextmanager
def opened(path: Path, mode: Literal["rb", "r+b", "ab"] = "rb") -> Iterator[BinaryIO]:
    """Open a regular file, as ``open`` does.

    Raises:
        OSError: it is not there, cannot be opened in that mode, or is not a regular file.
    """
    descriptor = os.open(path, _FLAGS[mode] | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    try:
        require_regular(descriptor, path)
        os.set_blocking(descriptor, True)  # as a process that inherits it expects
    except OSError:
        os.close(descriptor)
        raise
    with os.fdopen(descriptor, mode) as file:
        yield file


def require_regular(descriptor: int, path: Path) -> None:
    """Refuse what is not a regular file, as reading it may block or never end.

    Raises:
        OSError: it is not one.
    """
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))


def contents(path: Path) -> bytes:
    """All bytes of a regular file.

    Raises:
        OSError: as ``opened``.
    """
    with opened(path) as file:
        return file.read()


def lies_in(path: Path, folder: Path) -> bool:
    """Whether there is such a file in the folder, and it is no link that leads out of it."""
    return path.is_file() and path.resolve().is_relative_to(folder.resolve())
