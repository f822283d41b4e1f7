"""Rotation of actors' logs under a process that keeps its file open."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from disks import full, needs_mount, small_disk
from helpers import PATIENCE

from artos.system.child import Child
from artos.system.logs import piece, rotate, tail


def test_a_small_log_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "actor-0.log"
    assert not rotate(log, 10)
    log.write_text("0123456789")
    assert not rotate(log, 10)
    assert log.read_text() == "0123456789"
    assert list(tmp_path.iterdir()) == [log]


def test_whoever_appends_goes_on_without_noticing(tmp_path: Path) -> None:
    log = tmp_path / "actor-0.log"
    with log.open("ab", buffering=0) as writer:
        for text in (b"first first", b"second second", b"third third"):
            writer.write(text)
            assert rotate(log, 10)
            assert log.stat().st_size == 0
        writer.write(b"now")
    assert log.read_bytes() == b"now"
    assert log.with_name("actor-0.log.1").read_bytes() == b"hird third"
    assert log.with_name("actor-0.log.2").read_bytes() == b"ond second"
    assert len(list(tmp_path.iterdir())) == 3


def test_of_a_large_log_only_the_end_is_read(tmp_path: Path) -> None:
    log = tmp_path / "actor-0.log"
    with log.open("wb") as file:
        file.truncate(8 << 40)  # more than anybody has memory for
        file.seek(0, 2)
        file.write(b"\nlast but one\nExtension modules: many\nlast\n")
    assert Child(1, log).log_tail(3) == "last but one\nlast"
    assert rotate(log)
    assert log.stat().st_size == 0
    assert log.with_name("actor-0.log.1").read_bytes().endswith(b"last\n")
    assert Child(1, tmp_path / "none").log_tail() == ""


def test_a_log_is_read_in_pieces(tmp_path: Path) -> None:
    log = tmp_path / "actor-0.log"
    assert piece(log, 0, 10) == (b"", 0)
    assert piece(log, 7, 10) == (b"", 7)
    log.write_bytes(b"0123456789")
    assert piece(log, 0, 4) == (b"0123", 4)
    assert piece(log, 4, 100) == (b"456789", 10)
    assert piece(log, 10, 100) == (b"", 10)
    assert piece(log, -3, 100) == (b"789", 10)
    assert piece(log, -99, 2) == (b"01", 2)
    log.write_bytes("ä\nöö\n".encode())
    assert [piece(log, 0, 5), piece(log, 3, 3)] == [(b"\xc3\xa4\n", 3), (b"\xc3\xb6\xc3", 6)]
    log.write_bytes(b"new")  # it was emptied since
    assert piece(log, 10, 100) == (b"new", 3)


@needs_mount
def test_a_log_that_has_filled_the_disk_is_emptied(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        log = disk / "actor-0.log"
        log.write_bytes(bytes(1 << 12))
        with full(disk):
            assert rotate(log, 10)
            assert [path.name for path in disk.glob("actor*")] == ["actor-0.log"]
            assert log.stat().st_size == 0


TALKER = """
import sys
from artos.system.child import begin_member
begin_member()
for stream in (sys.stdout, sys.stderr):
    print("x" * 100_000, file=stream)
    print("\\u65e5 \\udce9", file=stream, flush=True)
"""


def test_what_a_member_prints_is_in_its_log_at_once(tmp_path: Path) -> None:
    code = "import sys, artos.system.child as c; c.begin_member(); print('hello'); sys.stdin.read()"
    command, end = [sys.executable, "-c", code], time.monotonic() + PATIENCE
    with (
        (tmp_path / "log").open("ab") as out,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=out) as talker,
    ):
        while not piece(tmp_path / "log", 0, 10)[0] and time.monotonic() < end:
            time.sleep(0.01)
        talker.kill()
    assert (tmp_path / "log").read_text() == "hello\n"


def test_a_member_may_print_where_nothing_can_be_written(tmp_path: Path) -> None:
    for log in (Path("/dev/full"), tmp_path / "log"):
        with log.open("ab") as out:
            subprocess.run([sys.executable, "-c", TALKER], stdout=out, stderr=out, check=True)
    assert (tmp_path / "log").read_text().splitlines() == ["x" * 100_000, "\u65e5 \\udce9"] * 2


def test_a_pipe_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    assert piece(tmp_path / "log", 0, 100) == (b"", 0)
    assert tail(tmp_path / "log", 3) == []
