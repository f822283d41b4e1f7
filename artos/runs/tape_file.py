"""The file of a tape: frames are appended through a map of it, which costs less than a write."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from artos.buffer.doorbell import ordered
from artos.system.append_file import AppendFile

_CHUNK = 64 << 10
"""Bytes by which the file grows. What is not used yet is zeros, which are cut off at the end."""


class TapeFile(AppendFile):
    """A new file at ``path``, for pieces that do not begin with a zero.

    What was appended is there if the process is killed. The first byte of a piece is written last:
    whoever reads the file meanwhile finds whole pieces, and then a zero or the end. Room is taken
    before it is mapped, so that a full disk is an error of ``append`` and no death by a signal.
    Where no room can be taken, or nothing be mapped, pieces are handed to the kernel one by one.
    """

    def __init__(self, path: Path) -> None:
        self._map: mmap.mmap | None = None
        self._end, self._maps = 0, True
        super().__init__(path, new=True)

    def append(self, piece: bytes | memoryview) -> int:
        """Add a piece, all of it or nothing; returns how many bytes there are now.

        Raises:
            OSError: the piece cannot be written; the file is as it was.
        """
        end = self._end + len(piece)
        if self._maps and (self._map is None or len(self._map) < end):
            self._grow(end + _CHUNK)
        if self._map is None:
            super().append(piece)
        else:
            self._map[self._end + 1 : end] = piece[1:]
            ordered()
            self._map[self._end] = piece[0]
        self._end = end
        return end

    def _grow(self, size: int) -> None:
        try:
            os.posix_fallocate(self._file, self._end, size - self._end)
            if self._map is None:
                self._map = mmap.mmap(self._file, size)
            else:
                self._map.resize(size)
        except OSError:
            self._maps = False
            self._cut()

    def _cut(self) -> None:
        if self._map is not None:
            self._map.close()
            self._map = None
        os.ftruncate(self._file, self._end)

    def close(self) -> None:
        """Cut off what was not used, and close it; twice is fine."""
        if self._file >= 0:
            self._cut()
        super().close()
