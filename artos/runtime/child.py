"""Starting a member process, and ending with the one that started it."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from artos.runtime.logs import print_whatever_happens, rotate, tail

_PR_SET_PDEATHSIG = 1
_NOISE = "Extension modules:"  # a line of the fault handler's, long and of no use
_LOOK = os.WEXITED | os.WNOHANG | os.WNOWAIT

# One arena that never shrinks, in huge pages where the kernel has them: activations of every
# minibatch, messages of every rollout reuse the same memory instead of faulting fresh pages in,
# which makes a CNN learner a quarter faster.
_TUNABLES = {
    "hugetlb": 1,
    "mmap_threshold": 4 << 30,
    "trim_threshold": 8 << 30,
    "top_pad": 64 << 20,
}
_HOARDER_ENV = {
    "GLIBC_TUNABLES": ":".join(f"glibc.malloc.{name}={value}" for name, value in _TUNABLES.items())
}


class Child:
    """A process of ours with its log file; knows when it died and of what.

    ``made`` is the process as it was started here, or the id of a child that came to be otherwise:
    restored from an image, or forked by a server and then adopted.
    """

    def __init__(self, made: subprocess.Popen[bytes] | int, log: Path) -> None:
        self._popen = None if isinstance(made, int) else made
        self.pid = made if isinstance(made, int) else made.pid
        self.log = log
        self._status: int | None = None

    def has_ended(self) -> bool:
        """Whether it is gone; unlike ``died`` leaves it to be reaped: its times can be read."""
        if self._status is not None:
            return True
        try:
            return os.waitid(os.P_PID, self.pid, _LOOK) is not None
        except ChildProcessError:
            return True

    def died(self) -> int | None:
        """Its exit status if it is gone (negative: killed by that signal), else None. Reaps it."""
        if self._popen is not None:
            return self._popen.poll()
        if self._status is None:
            self._status = self._reaped(os.WNOHANG)
        return self._status

    def _reaped(self, options: int) -> int | None:
        try:
            pid, status = os.waitpid(self.pid, options)
        except ChildProcessError:
            return -signal.SIGKILL  # somebody else took its status: it is gone, that much is sure
        return os.waitstatus_to_exitcode(status) if pid else None

    def end(self, seconds: float) -> None:
        """Give it ``seconds`` to end by itself, then kill it; it is reaped in any case."""
        if self.died() is not None:
            return
        try:
            self._wait(seconds)
        except (subprocess.TimeoutExpired, psutil.TimeoutExpired):
            self.kill()

    def _wait(self, seconds: float) -> None:
        if self._popen is not None:
            self._popen.wait(max(0.0, seconds))
        else:
            code = psutil.Process(self.pid).wait(max(0.0, seconds))
            self._status = -signal.SIGKILL if code is None else int(code)

    def kill(self) -> None:
        """SIGKILL, and reap."""
        if self.died() is not None:
            return
        os.kill(self.pid, signal.SIGKILL)
        if self._popen is not None:
            self._popen.wait()
        else:
            self._status = self._reaped(0)

    def log_tail(self, lines: int = 40) -> str:
        """The last lines it wrote."""
        last = tail(self.log, lines)
        return "\n".join([line for line in last if not line.startswith(_NOISE)])

    def cap_log(self) -> None:
        """See ``rotate``; whoever looks after a process calls this a few times a second."""
        rotate(self.log)

    def __repr__(self) -> str:
        return f"<Child {self.pid} {self.log.name}>"


def start(
    module: str,
    arguments: Sequence[str],
    log: Path,
    threads: int,
    *,
    hoards: bool = False,
    prefix: Sequence[str] = (),
    inherits: Sequence[int] = (),
) -> Child:
    """Start ``python -m module arguments`` with its output in ``log`` (appended).

    ``prefix`` is a command that runs it, such as ``numactl --physcpubind=1``; descriptors that it
    ``inherits`` keep their numbers. One that ``hoards`` gives no memory back before its end.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*prefix, *command(module, *arguments)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment(threads, hoards=hoards),
            start_new_session=True,  # Ctrl-C reaches only the supervisor, which ends the others
            pass_fds=inherits,
        )
    return Child(process, log)


def command(module: str, *arguments: str) -> list[str]:
    """How to run a module of ours in a process that ends with its parent.

    ``-P`` keeps the working directory off the import path, so no file of the user's shadows ours.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def environment(threads: int, *, hoards: bool = False) -> Mapping[str, str]:
    """Environment variables of a process of ours: compute threads, and who its parent is."""
    count = str(threads)
    fixed = {"OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count}
    parent = {"ARTOS_PARENT": str(os.getpid())}
    return {**os.environ, **fixed, **parent, **(_HOARDER_ENV if hoards else {})}


def begin_member() -> None:
    """Called first thing in a member: end with the parent, tell the log where a crash was.

    That also because the first process of a PID namespace, which clones are, dies of another
    signal than it was sent.
    """
    end_with_parent()
    print_whatever_happens()
    faulthandler.enable()


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Ask the kernel to send this process that signal when its parent dies.

    In a PID namespace of its own the parent has no number: then only the kernel can tell.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    expected = os.environ.get("ARTOS_PARENT")
    if expected and os.getppid() not in (0, int(expected)):
        os._exit(1)  # the parent died before the request took effect
