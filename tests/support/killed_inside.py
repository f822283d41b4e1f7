"""A process that is killed in the middle of what it does, at a place that the test names."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from typing import Any

from helpers import PATIENCE

_FORK = multiprocessing.get_context("fork")


def killed_inside(work: Callable[[Callable[[], Any]], object]) -> None:
    """Have a child do ``work``, and send it SIGKILL where that calls what it is given."""
    ours, theirs = _FORK.Pipe()

    def halt() -> None:
        theirs.send("here")
        threading.Event().wait()

    child = _FORK.Process(target=work, args=(halt,))
    child.start()
    try:
        assert ours.poll(PATIENCE), "it never came there"
    finally:
        child.kill()
        child.join(PATIENCE)
    assert child.exitcode == -9
