"""A file to which pieces are appended whole: a full disk leaves no piece half written."""

from __future__ import annotations

import os
from pathlib import Path

from artos.system.closing import Closing

_FLAGS = (
    os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    | os.O_NOFOLLOW | os.O_NONBLOCK  # neither through a link, nor waiting for a FIFO's reader
)  # fmt: skip


class AppendFile(Closing):
    """Appends to the file at ``path``; with ``new`` that file must not exist yet."""

    def __init__(self, path: Path, *, new: bool = False) -> None:
        self.path = path
        self._file = os.open(path, _FLAGS | (os.O_EXCL if new else 0), 0o666)

    def append(self, piece: bytes) -> None:
        """Hand a piece to the kernel, all of it or nothing.

        Raises:
            OSError: the piece cannot be written; the file is as it was.
        """
        before, left = os.fstat(self._file).st_size, memoryview(piece)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:
            os.ftruncate(self._file, before)
            raise

    def close(self) -> None:
        """Close it; twice is fine."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __repr__(self) -> str:
        return f"<AppendFile {self.path}>"
