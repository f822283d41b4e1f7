"""Forking a prepared process on request: warm starts where no image can be taken."""

from __future__ import annotations

import errno
import os

import msgspec

from artos.runtime.child import end_with_parent
from artos.runtime.identity import Identity


class ForkServer:
    """Forks the process it lives in; each child goes on as the member that was asked for.

    A request is a line of standard input, an ``Identity`` as JSON; the answer is a line of standard
    output, the child's process id. The child belongs to this process's parent, which must have
    asked for orphans (PR_SET_CHILD_SUBREAPER). Both streams are moved out of the way first, so
    what user code reads and prints never mixes with them.
    """

    def __init__(self) -> None:
        self._requests = os.fdopen(_moved(0, os.open(os.devnull, os.O_RDONLY)), "rb")
        self._answers = _moved(1, os.dup(2))

    def next(self) -> Identity | None:
        """Serve requests. Returns in every child who to be, and None here when no more come."""
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


def fork_aside() -> int:
    """Fork a process that is our parent's child, not ours, in a session of its own.

    It is forked by a process between, which ends, so the kernel hands it on. It waits for that:
    the signal at its parent's death is bound to the parent it has when it asks.

    Returns 0 in the new process, its process id here.

    Raises:
        OSError: no process could be made.
    """
    told, tell = os.pipe()
    gate, opener = os.pipe()
    between = os.fork()
    if between == 0:
        _fork_and_end(tell)
        for descriptor in (told, tell, opener):
            os.close(descriptor)
        _become_own(gate)
        return 0
    os.close(gate)
    os.close(tell)
    os.waitpid(between, 0)
    try:
        child = int(os.read(told, 32) or 0)
        if not child:
            raise OSError(errno.EAGAIN, "the system has no room for another process")
        os.write(opener, b"!")
    finally:
        os.close(told)
        os.close(opener)
    return child


def _fork_and_end(tell: int) -> None:
    """In the process between: returns only in the process that it forks."""
    try:
        child = os.fork()
    except OSError:
        os._exit(1)
    if child:
        os.write(tell, b"%d" % child)
        os._exit(0)


def _become_own(gate: int) -> None:
    if not os.read(gate, 1):
        os._exit(1)  # the server died before it saw us handed on
    os.close(gate)
    os.setsid()
    end_with_parent()
