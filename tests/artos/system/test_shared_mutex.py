"""A mutex between processes: one owner, given back when that dies, never waited for for ever."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from helpers import PATIENCE

from artos.buffer.segment import Segment
from artos.system.shared_mutex import SharedMutex


@pytest.fixture
def memory(tmp_path: Path) -> memoryview:
    return Segment.create(tmp_path / "memory", 4096).memory


def test_one_owner_at_a_time(memory: memoryview) -> None:
    mutex, seen = SharedMutex(memory, 64, create=True), list[bool]()
    same = SharedMutex(memory, 64)
    assert mutex.acquire(0.0)
    thread = threading.Thread(target=lambda: seen.append(same.acquire(0.01)))
    thread.start()
    thread.join(PATIENCE)
    mutex.release()
    assert seen == [False]
    assert same.acquire(0.0)
    same.release()
    with pytest.raises(OSError, match="not permitted"):
        mutex.release()


def test_who_waits_gets_it(memory: memoryview) -> None:
    mutex, seen = SharedMutex(memory, 64, create=True), list[bool]()
    mutex.acquire(0.0)

    def wait() -> None:
        seen.append(mutex.acquire(PATIENCE))
        mutex.release()

    thread = threading.Thread(target=wait)
    thread.start()
    mutex.release()
    thread.join(PATIENCE)
    assert seen == [True]


def test_after_an_exception_in_the_midst_its_thread_may_go_on(memory: memoryview) -> None:
    mutex = SharedMutex(memory, 64, create=True)
    assert mutex.acquire(0.0)
    assert mutex.acquire(0.0), "Ctrl-C may come between taking it and using it"
    mutex.release()


def test_it_comes_back_from_a_process_that_was_killed(memory: memoryview) -> None:
    mutex = SharedMutex(memory, 64, create=True)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        mutex.acquire(0.0)
        os.write(write, b"!")
        signal.pause()
        os._exit(1)
    try:
        os.read(read, 1)
        assert not mutex.acquire(0.01)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(read)
        os.close(write)
    for _ in range(2):
        assert mutex.acquire(PATIENCE)
        mutex.release()


def test_a_forked_child_does_not_own_it(memory: memoryview) -> None:
    mutex = SharedMutex(memory, 64, create=True)
    mutex.acquire(0.0)
    child = os.fork()
    if not child:
        os._exit(0 if not mutex.acquire(0.01) else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    mutex.release()
