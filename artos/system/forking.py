"""Forking a prepared process so that the child belongs to the starter of that process."""

from __future__ import annotations

import ctypes
import errno
import os

from artos.system.child import end_with_parent

_CLONE_NEWPID = 0x20000000
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37


def adopts_orphans() -> bool:
    """Whether processes below this one whose parents end become this one's children."""
    answer = ctypes.c_int()
    _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.addressof(answer))
    return bool(answer.value)


def adopt_orphans(yes: bool = True) -> None:
    """Set that."""
    _prctl(_PR_SET_CHILD_SUBREAPER, int(yes))


def _prctl(option: int, argument: int) -> None:
    rest = (ctypes.c_ulong(0),) * 3
    ctypes.CDLL(None, use_errno=True).prctl(option, ctypes.c_ulong(argument), *rest)


def fork_aside(*, apart: bool = False) -> int:
    """Fork a process that is our parent's child, not ours, in a session of its own.

    It is forked by a process between, which ends, so the kernel hands it on to the next above that
    adopts orphans. It waits for that: the signal at its parent's death is bound to the parent it
    has when it asks. ``apart`` makes it the first of a PID namespace, so that its image can be
    restored many times.

    Returns 0 in the new process, its process id here.

    Raises:
        OSError: no process could be made.
    """
    told, tell = os.pipe()
    gate, opener = os.pipe()
    between = os.fork()
    if between == 0:
        _fork_and_end(tell, apart)
        for descriptor in (told, tell, opener):
            os.close(descriptor)
        _become_own(gate)
        return 0
    os.close(gate)
    os.close(tell)
    os.waitpid(between, 0)
    try:
        child = int(os.read(told, 32) or -errno.EAGAIN)
        if child < 0:
            raise OSError(-child, f"the system made no process: {os.strerror(-child)}")
        os.write(opener, b"!")
    finally:
        os.close(told)
        os.close(opener)
    return child


def _fork_and_end(tell: int, apart: bool) -> None:
    """In the process between: returns only in the process that it forks."""
    try:
        if apart:
            _leave_pid_namespace()
        child = os.fork()
    except OSError as error:
        child = -(error.errno or errno.EAGAIN)
    if child:
        os.write(tell, b"%d" % child)
        os._exit(0)


def _leave_pid_namespace() -> None:
    """The next process we fork is the first of a new one (``os.unshare`` came with 3.12)."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWPID) == -1:
        raise OSError(ctypes.get_errno(), "no PID namespace")


def _become_own(gate: int) -> None:
    if not os.read(gate, 1):
        os._exit(1)  # the server died before it saw us handed on
    os.close(gate)
    os.setsid()
    end_with_parent()
