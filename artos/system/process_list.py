"""The processes of this machine, by their command lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import psutil

from artos.system.pidfd import PidFd


def find(is_wanted: Callable[[Sequence[str]], bool]) -> Iterator[PidFd]:
    """The other processes whose command line is wanted; the caller closes them."""
    for process in psutil.process_iter(["cmdline"]):
        if process.pid != os.getpid() and is_wanted(process.info["cmdline"] or ()):
            with suppress(ProcessLookupError):
                opened = PidFd(process.pid)
                if process.is_running():
                    yield opened
                else:
                    opened.close()  # another process has got the process id since
