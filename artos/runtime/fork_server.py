"""Forking a prepared process on request: warm starts where no image can be taken."""

from __future__ import annotations

import os

import msgspec

from artos.runtime.identity import Identity
from artos.system.forking import fork_aside


class ForkServer:
    """Forks its own process; each child continues as the requested member.

    A request is a line of standard input, an ``Identity`` as JSON; the answer is a line of standard
    output, the child's process id. The child belongs to this process's parent, which must have
    asked for orphans (PR_SET_CHILD_SUBREAPER). Both streams are moved out of the way first, so
    what user code reads and prints never mixes with them.
    """

    def __init__(self) -> None:
        self._requests = os.fdopen(_moved(0, os.open(os.devnull, os.O_RDONLY)), "rb")
        self._answers = _moved(1, os.dup(2))

    def next(self) -> Identity | None:
        """Serve requests. Returns its identity in every child, and None here at the end."""
        for line in iter(self._requests.readline, b""):
            identity = msgspec.json.decode(line, type=Identity)
            child = fork_aside()
            if child == 0:
                self._close()
                return identity
            os.write(self._answers, b"%d\n" % child)
        self._close()
        return None

    def _close(self) -> None:
        self._requests.close()
        os.close(self._answers)


def _moved(descriptor: int, instead: int) -> int:
    """What ``descriptor`` was, under another number; ``instead`` takes its place."""
    moved = os.dup(descriptor)
    os.dup2(instead, descriptor)
    os.close(instead)
    return moved
