"""Whether what a process has made lives on in a fork of it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from artos.system.child import Child

_SECONDS = 60.0
_KEPT, _LOST = 0, 1


class Held(NamedTuple):
    """What a fork has not, or would share: threads, processes, open descriptors."""

    threads: int
    children: int
    descriptors: dict[str, str]


def survives_a_fork(make: Callable[[], object]) -> bool:
    """Whether ``make`` makes nothing but memory, and so may be called before this process forks.

    A fork would lack the threads that were made, and share processes and open files. Tried out in
    a process of its own, which writes nothing, closes what was made if it can be closed, and ends.
    False if ``make`` raises there or takes more than a minute.
    """
    pid = os.fork()
    if not pid:
        status = _LOST
        try:
            os.setsid()
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            for descriptor in (1, 2):
                os.dup2(nowhere, descriptor)
            before = held()
            made = make()
            status = _KEPT if held() == before else _LOST
            if hasattr(made, "close"):
                made.close()
        finally:  # whatever was raised, even SystemExit
            os._exit(status)
    trial = Child(pid, Path(os.devnull))
    trial.end(_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # processes that were made
    return trial.died() == _KEPT


def held() -> Held:
    """What this process has of these now."""
    me = psutil.Process()
    descriptors = {}
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208 (names)
        with suppress(FileNotFoundError):  # that of the listing itself
            # It may be a socket or a pipe.
            descriptors[number] = os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115
    return Held(me.num_threads(), len(me.children()), descriptors)
