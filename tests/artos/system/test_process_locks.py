"""Locks that belong to a process: not to its children, and gone with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers import PATIENCE

from artos.system.pidfd import PidFd
from artos.system.process_locks import ProcessLocks


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "locks"
    file.touch()
    return file


@contextmanager
def other(path: Path, number: int) -> Iterator[subprocess.Popen[str]]:
    """Another process that has a lock."""
    code = f"""if True:
        from pathlib import Path
        from artos.system.process_locks import ProcessLocks
        print(ProcessLocks.of(Path({str(path)!r})).take({number}), flush=True)
        input()"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        try:
            yield process
        finally:
            process.kill()


def test_one_has_a_lock_and_everybody_can_ask_who(path: Path) -> None:
    with ProcessLocks.of(path) as locks, other(path, 3) as process:
        assert locks.holder(3) == process.pid
        assert not locks.take(3)
        assert locks.take(4)
        assert not locks.take(4)
        assert locks.holder(4) == os.getpid()
        locks.drop(4)
        assert locks.holder(4) is None


def test_it_goes_with_its_process(path: Path) -> None:
    with ProcessLocks.of(path) as locks, other(path, 0) as process, PidFd(process.pid) as ends:
        process.kill()
        assert ends.wait(PATIENCE)
        assert locks.holder(0) is None, "nobody has reaped it yet"
        assert locks.take(0)


def test_all_in_a_process_share_them_until_the_last_closes(path: Path) -> None:
    one, two = ProcessLocks.of(path), ProcessLocks.of(path)
    assert one is two
    assert one.take(1)
    two.close()
    with other(path, 2):
        assert one.holder(1) == os.getpid()
    one.close()
    with ProcessLocks.of(path) as again:
        assert again.holder(1) is None


def test_a_forked_child_has_none_and_takes_none_away(path: Path) -> None:
    """Whatever it inherits and closes; and the parent's go with the parent, not with the child."""
    code = f"""if True:
        import os, signal
        from pathlib import Path
        from artos.system.process_locks import ProcessLocks
        locks = ProcessLocks.of(Path({str(path)!r}))
        locks.take(0)
        read, write = os.pipe()
        child = os.fork()
        if not child:
            mine = ProcessLocks.of(Path({str(path)!r}))
            assert mine.holder(0) == os.getppid() and not mine.take(0)
            mine.close()
            os.write(write, b"!")
            signal.pause()
        os.read(read, 1)
        print(child, flush=True)
        input()"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process, ProcessLocks.of(path) as locks:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        with PidFd(child) as forked:
            try:
                assert locks.holder(0) == process.pid
                process.kill()
                process.wait(PATIENCE)
                assert not forked.has_ended()
                assert locks.holder(0) is None
            finally:
                process.kill()
                forked.signal(signal.SIGKILL)
                forked.wait(PATIENCE)
