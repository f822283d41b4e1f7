"""Freezing real processes: nothing of them moves, and nobody takes them for dead."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from frozen import is_frozen
from helpers import PATIENCE
from worker_hosts import needs_root, until

from workers.actors.idle_tiers import family, freeze, thaw

# A process with two threads, its child, and that one's child: four counters that go up.
FAMILY = """if True:
    import mmap, os, sys, threading, time
    with open(sys.argv[1], "r+b") as file:
        memory = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")
    def count(place):
        while True:
            memory[place] += 1
            time.sleep(0.0005)
    generation = 0
    while generation < 2 and os.fork() == 0:
        generation += 1
    if generation == 0:
        threading.Thread(target=count, args=[3], daemon=True).start()
    count(generation)"""

# Makes children as fast as it can. They stay, and sleep: hundreds that move keep a machine busy.
FORKING = """if True:
    import os, time
    for _ in range(300):
        if os.fork() == 0:
            break
    time.sleep(1000)"""


class Counters:
    """What the family counts, in a file that it shares with the test."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(32))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 32)

    def read(self) -> tuple[int, ...]:
        return tuple(memoryview(self._memory).cast("Q"))

    def until_all_move(self) -> None:
        before = self.read()
        until(
            "all count",
            lambda: all(new > old for new, old in zip(self.read(), before, strict=True)),
        )


@contextmanager
def counting(path: Path, *prefix: str) -> Iterator[tuple[subprocess.Popen[bytes], Counters]]:
    counters = Counters(path)
    command = [*prefix, sys.executable, "-c", FAMILY, str(path)]
    with subprocess.Popen(command) as process:
        try:
            counters.until_all_move()
            yield process, counters
        finally:
            kill(*family(process.pid))


def kill(*pids: int) -> None:
    for pid in reversed(pids):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def assert_stands_still(counters: Counters) -> None:
    before = counters.read()
    time.sleep(0.05)  # a hundred counts of each, if they did
    assert counters.read() == before


def test_a_frozen_process_stands_still_with_its_threads_and_descendants(tmp_path: Path) -> None:
    with counting(tmp_path / "counters") as (process, counters):
        assert len([*family(process.pid)]) == 3
        assert not is_frozen(process.pid)
        for _ in range(2):
            freeze(process.pid)
            until("all are frozen", lambda: is_frozen(process.pid))
            assert_stands_still(counters)
            thaw(process.pid)
            counters.until_all_move()
            assert not is_frozen(process.pid)


def test_a_frozen_child_is_not_taken_for_a_dead_one(tmp_path: Path) -> None:
    told: list[int] = []
    before = signal.signal(signal.SIGCHLD, lambda number, frame: told.append(number))
    try:
        with counting(tmp_path / "counters") as (process, _):
            freeze(process.pid)
            until("it is frozen and we were told", lambda: is_frozen(process.pid) and told)
            assert process.poll() is None
            thaw(process.pid)
            assert process.poll() is None
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_frozen_process_can_be_killed(tmp_path: Path) -> None:
    with counting(tmp_path / "counters") as (process, _):
        freeze(process.pid)
        until("it is frozen", lambda: is_frozen(process.pid))
        _, *orphans = family(process.pid)
        try:
            process.kill()
            assert process.wait(PATIENCE) == -signal.SIGKILL
        finally:
            kill(*orphans)


def test_one_that_still_moves_makes_a_family_not_frozen(tmp_path: Path) -> None:
    with counting(tmp_path / "counters") as (process, _):
        freeze(process.pid)
        until("it is frozen", lambda: is_frozen(process.pid))
        os.kill([*family(process.pid)][-1], signal.SIGCONT)
        until("the grandchild moves", lambda: not is_frozen(process.pid))


def test_children_made_meanwhile_are_frozen_too() -> None:
    """One in the making may escape the first time; its mother is stopped by the second."""
    with subprocess.Popen([sys.executable, "-c", FORKING]) as process:
        try:
            until("it makes children", lambda: len([*family(process.pid)]) > 1)
            for _ in range(20):
                freeze(process.pid)
                until("the mother is frozen", lambda: _is_stopped(process.pid))
                freeze(process.pid)
                until("all are frozen", lambda: is_frozen(process.pid))
                count = len([*family(process.pid)])
                thaw(process.pid)
                until(
                    "it makes more, or is done",
                    lambda more=count: len([*family(process.pid)]) > min(more, 300),
                )
        finally:
            freeze(process.pid)
            until("the mother is frozen", lambda: _is_stopped(process.pid))
            kill(*family(process.pid))


def test_freezing_and_thawing_twice_is_freezing_and_thawing_once(tmp_path: Path) -> None:
    with counting(tmp_path / "counters") as (process, counters):
        for _ in range(2):
            freeze(process.pid)
        until("it is frozen", lambda: is_frozen(process.pid))
        for _ in range(2):
            thaw(process.pid)
        counters.until_all_move()


@pytest.mark.parametrize("reaped", [False, True])
def test_a_dead_process_is_nothing_to_freeze(reaped: bool) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        if reaped:
            process.wait()
        freeze(process.pid)
        thaw(process.pid)
        assert not is_frozen(process.pid)
    finally:
        process.wait()


@needs_root
def test_the_first_process_of_a_pid_namespace_can_be_frozen(tmp_path: Path) -> None:
    """Signals to it from inside are ignored, those from outside are not."""
    prefix = ("unshare", "--pid", "--fork", "--kill-child", "setsid")
    with counting(tmp_path / "counters", *prefix) as (process, counters):
        _, first, *_ = family(process.pid)
        freeze(first)
        until("it is frozen", lambda: is_frozen(first))
        assert_stands_still(counters)
        thaw(first)
        counters.until_all_move()


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "T"
