"""Files that travel in pieces: whole at the other end, or not there."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from artos.errors import BadBundle, BadMessage
from artos.protocol.steering import BundlePiece, ReadPiece
from artos.transport.served_files import PIECE, Incoming, cut


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "source"


@pytest.fixture
def coming(tmp_path: Path) -> Incoming:
    return Incoming(7, tmp_path / "folder" / "target")


@pytest.mark.parametrize("size", [1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5])
def test_a_file_arrives_as_it_was(source: Path, coming: Incoming, size: int) -> None:
    source.write_bytes(random.Random(size).randbytes(size))
    pieces = 0
    while not coming.whole:
        piece = cut(source, coming.wish)
        assert len(piece.content) <= PIECE
        coming.take(piece)
        pieces += 1
    coming.close()
    assert coming.path.read_bytes() == source.read_bytes()
    assert pieces == -(-size // PIECE)


def test_half_a_file_is_none(source: Path, coming: Incoming) -> None:
    source.write_bytes(bytes(PIECE + 1))
    coming.take(cut(source, coming.wish))
    assert not coming.whole
    coming.close()
    coming.close()
    assert not coming.path.exists()


@pytest.mark.parametrize(
    "piece",
    [
        BundlePiece(7, 4, 8, b"abcd"),
        BundlePiece(7, 0, 8, b""),
        BundlePiece(7, 0, 3, b"abcd"),
        BundlePiece(7, 0, 0, b""),
        BundlePiece(7, 0, 0, b"abcd"),
    ],
)
def test_a_piece_that_does_not_fit_changes_nothing(coming: Incoming, piece: BundlePiece) -> None:
    with pytest.raises(BadBundle, match="bundle 7"):
        coming.take(piece)
    coming.take(BundlePiece(7, 0, 8, b"abcd"))
    for other in (BundlePiece(7, 4, 9, b"efgh"), BundlePiece(7, 0, 8, b"abcd")):
        with pytest.raises(BadBundle, match="do not fit"):
            coming.take(other)
    coming.take(BundlePiece(7, 4, 8, b"efgh"))
    coming.close()
    assert coming.path.read_bytes() == b"abcdefgh"


def test_there_is_nothing_beyond_the_end(source: Path) -> None:
    source.write_bytes(b"abc")
    assert cut(source, ReadPiece(7, 1)) == BundlePiece(7, 1, 3, b"bc")
    with pytest.raises(BadMessage, match="bundle 7 ends before byte 3"):
        cut(source, ReadPiece(7, 3))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's folders may be in /dev")
def test_a_full_disk_is_noticed_at_once() -> None:
    coming = Incoming(7, Path("/dev/full"))
    with pytest.raises(OSError, match="No space left"):
        coming.take(BundlePiece(7, 0, 8, b"abcd"))
    coming._file.raw.close()  # type: ignore[attr-defined]


def test_what_there_is_no_room_for_is_refused_at_once(coming: Incoming) -> None:
    with pytest.raises(BadBundle, match=r"it has \d+ bytes, and there is room for"):
        coming.take(BundlePiece(7, 0, 1 << 62, b"x"))
    coming.close()
    assert not coming.path.exists()
