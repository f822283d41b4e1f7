"""What is appended to a tape's file is there at once, whole, and the file has no more than that."""

from __future__ import annotations

import errno
import mmap
import os
import signal
from pathlib import Path

import pytest
from disks import full, needs_mount, small_disk

from artos.runs import tape_file
from artos.runs.tape_file import TapeFile

PIECES = [bytes([number % 255 + 1]) * (number * 37 % 300 + 1) for number in range(1_000)]


@pytest.fixture(params=["mapped", "no room in advance", "no maps", "maps that cannot grow"])
def hindered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the file system cannot do."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    class Fixed(mmap.mmap):
        def resize(self, newsize: int) -> None:
            refuse(newsize)

    match request.param:
        case "no room in advance":
            monkeypatch.setattr(os, "posix_fallocate", refuse)
        case "no maps":
            monkeypatch.setattr(tape_file.mmap, "mmap", refuse)
        case "maps that cannot grow":
            monkeypatch.setattr(tape_file.mmap, "mmap", Fixed)
    return str(request.param)


def test_the_file_has_all_pieces_and_nothing_else(hindered: str, tmp_path: Path) -> None:
    path, whole = tmp_path / "tape", b""
    with TapeFile(path) as file:
        for piece in PIECES:
            whole += piece
            assert file.append(piece) == len(whole)
            assert path.read_bytes().rstrip(b"\0") == whole
        long = b"\1" * 300_000  # more than the file grows by
        file.append(long)
        assert path.read_bytes().rstrip(b"\0") == whole + long
        assert path.stat().st_size - len(whole + long) <= tape_file._CHUNK
    assert path.read_bytes() == whole + long
    file.close()
    with pytest.raises(FileExistsError):
        TapeFile(path)


def test_a_file_that_nothing_was_appended_to_is_empty(tmp_path: Path) -> None:
    TapeFile(tmp_path / "tape").close()
    assert (tmp_path / "tape").read_bytes() == b""


@pytest.mark.processes
def test_it_is_there_if_the_process_is_killed(tmp_path: Path) -> None:
    if (child := os.fork()) == 0:
        file = TapeFile(tmp_path / "tape")
        for piece in PIECES:
            file.append(piece)
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert (tmp_path / "tape").read_bytes().rstrip(b"\0") == b"".join(PIECES)


@needs_mount
def test_a_full_disk_is_an_error_and_the_file_stays_as_it_was(tmp_path: Path) -> None:
    piece = b"\1" * 1_000
    with small_disk(tmp_path / "disk", "256k") as disk, TapeFile(disk / "tape") as file:
        fits = 200  # most of it
        for _ in range(fits):
            file.append(piece)
        with full(disk), pytest.raises(OSError, match="No space left"):
            file.append(piece * 100)
        assert (disk / "tape").read_bytes() == piece * fits
        file.append(piece)
        assert (disk / "tape").read_bytes() == piece * (fits + 1)
