"""A file to which pieces are appended whole: a full disk leaves no piece half written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from artos.system.closing import Closing
from artos.system.regular_file import require_regular

_FLAGS = (
    os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    | os.O_NOFOLLOW | os.O_NONBLOCK  # neither through a link, nor waiting for a FIFO's reader
)  # fmt: skip
_BLOCK = 1 << 20


class AppendFile(Closing):
    """Appends to the file at ``path``; with ``new`` that file must not exist yet."""

    def __init__(self, path: Path, *, new: bool = False) -> None:
        self.path = path
        self._file = os.open(path, _FLAGS | (os.O_EXCL if new else 0), 0o666)
        try:
            require_regular(self._file, path)
        except OSError:
            self.close()
            raise

    def append(self, piece: bytes | memoryview) -> int:
        """Hand a piece to the kernel, all of it or nothing; returns how long the file is now.

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
        return before + len(piece)

    def drop_partial_line(self) -> int:
        """Cut off a line that a killed writer left unfinished; returns how many whole ones stay."""
        with os.fdopen(os.dup(self._file), "rb") as file:
            file.seek(0)
            lines, end = whole_lines(file)
        os.ftruncate(self._file, end)
        return lines

    def close(self) -> None:
        """Close it; twice is fine."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __repr__(self) -> str:
        return f"<AppendFile {self.path}>"


def whole_lines(file: BinaryIO) -> tuple[int, int]:
    """How many whole lines a file has from its current position on, and their bytes."""
    lines = read = end = 0
    while block := file.read(_BLOCK):
        if found := block.count(b"\n"):
            lines, end = lines + found, read + block.rindex(b"\n") + 1
        read += len(block)
    return lines, end
