"""What stands in the way of an image is told by name; no CRIU needed."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

from helpers import PATIENCE

from artos.clock import Deadline
from workers.checkpoint.criu.suspects import suspects, threads


def test_a_socket_is_told_with_both_its_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (line,) = [words for words in suspects(os.getpid()) if str(port) in words]
    assert line == f"descriptor {line.split()[1]} is a socket (127.0.0.1:{port} to nobody)"


def test_a_pool_of_threads_is_told_by_its_name() -> None:
    begun, end = threading.Event(), threading.Event()

    def wait() -> None:
        Path("/proc/thread-self/comm").write_text("pool-of-somebody")
        begun.set()
        end.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        begun.wait()
        assert "pool-of-somebod" in threads(os.getpid())
        (line,) = [words for words in suspects(os.getpid()) if "threads named" in words]
        assert "pool-of-somebod" in line
    finally:
        end.set()
        thread.join()
    deadline = Deadline(PATIENCE)
    while "pool-of-somebod" in threads(os.getpid()):  # the kernel lets go of it a little later
        assert not deadline.passed
        os.sched_yield()


def test_of_a_process_that_is_gone_nothing_is_known() -> None:
    assert suspects(2**22 + 1) == threads(2**22 + 1) == []
