"""Files sent over a messenger in pieces, which the receiver asks for one at a time.

So other messages on the same link wait for at most one piece of each file.
"""

from __future__ import annotations

import os
from pathlib import Path

from artos.errors import BadBundle, BadMessage
from artos.protocol.steering import BundlePiece, ReadPiece
from artos.system.closing import Closing
from artos.system.private_folder import keep
from artos.system.regular_file import opened
from artos.system.shm import free_bytes

PIECE = 1 << 20
"""Bytes of a file in one message."""


def cut(path: Path, request: ReadPiece) -> BundlePiece:
    """The requested piece of a file.

    Raises:
        BadMessage: the file ends before that piece.
        OSError: the file cannot be read.
    """
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if request.start >= size:
            raise BadMessage(f"bundle {request.number} ends before byte {request.start}")
        file.seek(request.start)
        return BundlePiece(request.number, request.start, size, file.read(PIECE))


class Incoming(Closing):
    """A file on its way here: asks for missing pieces until it is ``whole``.

    If it is closed earlier, the file is removed.
    """

    def __init__(self, number: int, path: Path) -> None:
        self.number, self.path = number, path
        self._came, self._size = 0, 0
        keep(path.parent)
        self._file = path.open("wb")

    @property
    def whole(self) -> bool:
        """Whether all of the file is here."""
        return 0 < self._size == self._came

    @property
    def wish(self) -> ReadPiece:
        """The request for the next missing piece."""
        return ReadPiece(self.number, self._came)

    def take(self, piece: BundlePiece) -> None:
        """Write a piece that has come.

        Raises:
            BadBundle: it is not the piece that was asked for, or there is no such file or no room.
            OSError: the piece cannot be written.
        """
        if not piece.size:
            raise BadBundle(self.number, "the file is no longer there")
        if not self._size and piece.size > (room := free_bytes(self.path.parent)):
            raise BadBundle(self.number, f"it has {piece.size} bytes, and there is room for {room}")
        until = piece.start + len(piece.content)
        fits = piece.start == self._came and piece.start < until <= piece.size
        if not fits or self._size not in (0, piece.size):
            raise BadBundle(self.number, f"bytes {piece.start} to {until} do not fit")
        self._file.write(piece.content)
        self._file.flush()  # a full disk is noticed now
        self._came, self._size = until, piece.size
        if self.whole:
            self._file.close()

    def close(self) -> None:
        """Remove the file unless it is whole. May be called twice."""
        self._file.close()
        if not self.whole:
            self.path.unlink(missing_ok=True)

    def __repr__(self) -> str:
        return f"<Incoming {self.path} {self._came} of {self._size} bytes>"
