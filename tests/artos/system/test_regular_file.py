"""A FIFO or a folder in the place of a file is refused at once, by whoever opens it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from artos.buffer.rows_file import RowsFile, check_rows
from artos.errors import CheckpointFault, Refused
from artos.runs.orders import RunOrder, read_order
from artos.runtime.serving import plan_in
from artos.runtime.template import take_log
from artos.system.append_file import AppendFile
from artos.system.child import streams_to
from artos.system.regular_file import contents, opened
from artos.transport.keys import Keys
from head.daemon.store import Store
from workers.checkpoint.criu.log import read_log


@pytest.mark.parametrize("mode", ["rb", "r+b", "ab"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["FIFO", "folder"])
def test_no_file(
    make: Callable[[Path], None], mode: Literal["rb", "r+b", "ab"], tmp_path: Path
) -> None:
    make(tmp_path / "file")
    with pytest.raises(OSError, match="file"), opened(tmp_path / "file", mode):
        pass


def test_a_file_is_opened_as_usual(tmp_path: Path) -> None:
    for piece in (b"one", b"two"):
        with opened(tmp_path / "file", "ab") as file:
            assert not fcntl.fcntl(file, fcntl.F_GETFL) & os.O_NONBLOCK
            file.write(piece)
    with opened(tmp_path / "file", "r+b") as file:
        assert file.read() == b"onetwo"
        file.truncate(3)
    with opened(tmp_path / "file") as file:
        assert file.read() == b"one"


def log_of_a_child(path: Path) -> None:
    with streams_to(path):
        pass


@pytest.mark.parametrize(
    "read",
    [
        lambda path: read_order(path, RunOrder),
        lambda path: plan_in(str(path)),
        lambda path: check_rows(path, RowsFile(path.name, "", ())),
        lambda path: Keys.load(path.parent),
        lambda path: Store(path.parent).load(),
        AppendFile,
        lambda path: take_log(str(path)),
        log_of_a_child,
    ],
    ids=["order", "plan", "rows", "keys", "head", "journal", "log", "log of a child"],
)
def test_whoever_reads_it(read: Callable[[Path], object], tmp_path: Path) -> None:
    for name in ("file", "state.json"):
        os.mkfifo(tmp_path / name)
    with pytest.raises((OSError, CheckpointFault, Refused)):
        read(tmp_path / "file")


def test_a_log_of_criu_that_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    assert read_log(tmp_path / "log") == ""


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "fifo"])
def test_what_is_no_file_is_refused_and_not_kept_open(make: object, tmp_path: Path) -> None:
    path, files = tmp_path / "record", Path("/proc/self/fd")
    make(path)  # type: ignore[operator]
    before = len([*files.iterdir()])
    for _ in range(3):
        with pytest.raises(OSError, match=r"directory|no regular file"):
            contents(path)
    assert len([*files.iterdir()]) == before
