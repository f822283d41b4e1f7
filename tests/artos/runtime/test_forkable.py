"""What is tried out in a fork, and found to live on in forks or not."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from artos.runtime.forkable import survives_a_fork

KEPT: list[object] = []
"""Keeps what is made in the fork from being collected there before it is looked at."""


def memory() -> None:
    KEPT.append(bytearray(1 << 20))


def read_file() -> None:
    KEPT.append(Path(os.devnull).read_bytes())


def thread() -> None:
    threading.Thread(target=threading.Event().wait, daemon=True).start()


def open_file() -> None:
    KEPT.append(os.open(os.devnull, os.O_RDONLY))


def other_file() -> None:
    """The descriptor is the same as before, the file is not."""
    os.dup2(os.open("/dev/zero", os.O_RDONLY | os.O_CLOEXEC), 0)


def error() -> None:
    raise RuntimeError("not here")


@pytest.mark.parametrize("make", [memory, read_file])
def test_memory_lives_on(make: Callable[[], None]) -> None:
    assert survives_a_fork(make)
    assert not KEPT, "it was made here"


@pytest.mark.parametrize("make", [thread, open_file, other_file, error, sys.exit])
def test_the_rest_does_not(make: Callable[[], None]) -> None:
    assert not survives_a_fork(make)


def test_processes_do_not_and_end_with_it(tmp_path: Path) -> None:
    number = tmp_path / "pid"

    def process() -> None:
        made = subprocess.Popen(["sleep", "100"])
        number.write_text(str(made.pid))

    assert not survives_a_fork(process)
    with suppress(psutil.NoSuchProcess):
        left = psutil.Process(int(number.read_text()))
        _, alive = psutil.wait_procs([left], 10)
        assert not alive or left.status() == psutil.STATUS_ZOMBIE


def test_what_was_made_is_closed(tmp_path: Path) -> None:
    class Made:
        def close(self) -> None:
            (tmp_path / "closed").touch()

    assert survives_a_fork(Made)
    assert (tmp_path / "closed").exists()


def test_nothing_of_it_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    assert survives_a_fork(lambda: os.write(1, b"made"))
    assert not any(capfd.readouterr())
