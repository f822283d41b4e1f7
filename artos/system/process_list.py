"""The processes of this machine, by their command lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import psutil

from artos.system.pidfd import PidFd


def find(is_wanted: Callable[[Sequence[str]], bool], user: int | None = None) -> Iterator[PidFd]:
    """The other processes whose command line is wanted, of any user or one; the caller closes them.

    Whose they are matters where several users have processes: a command line can be forged.
    """
    for process in psutil.process_iter(["cmdline", "uids"]):
        if user is not None and (process.info["uids"] or (user,))[0] != user:
            continue
        if process.pid != os.getpid() and is_wanted(process.info["cmdline"] or ()):
            with suppress(ProcessLookupError):
                opened = PidFd(process.pid)
                if process.is_running():
                    yield opened
                else:
                    opened.close()  # another process has got the process id since
