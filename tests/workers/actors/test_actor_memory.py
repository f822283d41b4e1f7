"""What actors keep for themselves, of real processes; when it is read, by a manual clock."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from helpers import python

from artos.clock import ManualClock
from workers.actors.memory import PrivateMemory, private_mb

# Makes a child that has all of its 64 MB and allocates MB more for each line that it reads.
FORKED = """if True:
    import os, sys
    memory, own = bytearray(b"x" * 64_000_000), []
    if not (child := os.fork()):
        for line in sys.stdin:
            own.append(bytearray(b"x" * (int(line) * 1_000_000)))
            print("done", flush=True)
        os._exit(0)
    print(child, flush=True)
    os.waitpid(child, 0)"""


@dataclass
class Fork:
    """A process that shares 64 MB with its parent."""

    pid: int
    parent: subprocess.Popen[str]

    def allocate(self, mb: int) -> None:
        """Let it have so many MB more of its own."""
        assert self.parent.stdin
        assert self.parent.stdout
        self.parent.stdin.write(f"{mb}\n")
        self.parent.stdin.flush()
        assert self.parent.stdout.readline() == "done\n"


@contextmanager
def forked() -> Iterator[Fork]:
    with python("-c", FORKED) as parent:
        assert parent.stdout
        yield Fork(int(parent.stdout.readline()), parent)
        assert parent.stdin
        parent.stdin.close()
        parent.wait(10)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_it_is_what_a_process_shares_with_nobody() -> None:
    with forked() as fork:
        assert private_mb(fork.pid) < 16
        fork.allocate(32)
        assert 32 <= private_mb(fork.pid) < 48


def test_a_process_that_is_gone_keeps_nothing() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert private_mb(process.pid) == 0.0


def test_it_is_read_at_once_and_again_when_it_is_old(clock: ManualClock) -> None:
    memory = PrivateMemory(clock)
    with forked() as fork:
        before = memory.mb(0, fork.pid)
        fork.allocate(32)
        clock.advance(29.0)
        assert memory.mb(0, fork.pid) == before
        clock.advance(1.0)
        assert memory.mb(0, fork.pid) >= before + 32


def test_an_actor_with_another_process_is_read_anew(clock: ManualClock) -> None:
    memory = PrivateMemory(clock)
    with forked() as first, forked() as second:
        second.allocate(32)
        assert memory.mb(0, second.pid) > memory.mb(0, first.pid) + 16


def test_actors_that_are_due_at_once_are_read_one_after_the_other(clock: ManualClock) -> None:
    memory = PrivateMemory(clock)
    with forked() as one, forked() as other:
        before = [memory.mb(0, one.pid), memory.mb(1, other.pid)]
        one.allocate(32)
        other.allocate(32)
        clock.advance(30.0)
        assert memory.mb(0, one.pid) >= before[0] + 32
        assert memory.mb(1, other.pid) == before[1]
        clock.advance(0.25)
        assert memory.mb(1, other.pid) >= before[1] + 32
