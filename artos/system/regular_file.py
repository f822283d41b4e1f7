"""Files of records are read as such: a FIFO or a device in their place would be waited for."""

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
        OSError: it is not there, cannot be opened so, or is something else than a file.
    """
    descriptor = os.open(path, _FLAGS[mode] | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    try:
        require_regular(descriptor, path)
        os.set_blocking(descriptor, True)  # as whoever inherits it expects
    except OSError:
        os.close(descriptor)
        raise
    with os.fdopen(descriptor, mode) as file:
        yield file


def require_regular(descriptor: int, path: Path) -> None:
    """Refuse what is something else than a file, and may be waited for or have no end.

    Raises:
        OSError: it is.
    """
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))


def contents(path: Path) -> bytes:
    """All of a regular file.

    Raises:
        OSError: as ``opened``.
    """
    with opened(path) as file:
        return file.read()
