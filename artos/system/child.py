"""Child processes: starting, forking and adopting one, and ending with one's parent."""

from __future__ import annotations

import ctypes
import errno
import faulthandler
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Protocol

import msgspec

from artos.system import heap
from artos.system.account import SystemAccount
from artos.system.logs import print_whatever_happens, rotate, tail
from artos.system.pidfd import PidFd
from artos.system.regular_file import opened

_PR_SET_PDEATHSIG = 1
_NOISE = "Extension modules:"  # a line that Python's fault handler prints, long and of no use
_LOOK = os.WEXITED | os.WNOHANG | os.WNOWAIT

# First process of a PID namespace and of a session; setpriv has the kernel end it with us.
_APART = ("setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child=KILL",
          "setsid")  # fmt: skip

Streams = tuple[IO[bytes], IO[bytes], IO[bytes]]
"""Standard input, output and error output of a process."""

forked = False
"""Whether this process was forked by the preload process, not started from scratch."""
_CLONE_NEWPID = 0x20000000
_SPINS = 20_000
"""Iterations, about 1 ms, for which a thread of libgomp (torch's OpenMP) spins before it sleeps.

By default these are 300,000: a thread whose peers were preempted keeps its CPU from others for
15 ms. With none at all, a small network loses more than its second thread gains.
"""
_OWN_WAITS = {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}
"""Variables by which users set this themselves."""
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37


class Child:
    """A process of ours with its log file; knows when it ended and how.

    ``made`` is the process as it was started here, or the process id of a child that was made
    in another way: restored from an image, or forked by another process and then adopted.
    """

    def __init__(self, made: subprocess.Popen[bytes] | int, log: Path) -> None:
        self._popen = None if isinstance(made, int) else made
        self.pid = made if isinstance(made, int) else made.pid
        self.log = log
        self._status: int | None = None

    def has_ended(self) -> bool:
        """Whether it has ended; unlike ``died`` does not reap it, so its times can be read."""
        if self._status is not None:
            return True
        try:
            return os.waitid(os.P_PID, self.pid, _LOOK) is not None
        except ChildProcessError:
            return True

    def died(self) -> int | None:
        """Its exit status if it has ended (negative: by that signal), else None. Reaps it."""
        if self._popen is not None:
            return self._popen.poll()
        if self._status is None:
            self._status = self._reaped(os.WNOHANG)
        return self._status

    def _reaped(self, options: int) -> int | None:
        try:
            pid, status = os.waitpid(self.pid, options)
        except ChildProcessError:
            return -signal.SIGKILL  # its status was reaped elsewhere; it is certainly gone
        return os.waitstatus_to_exitcode(status) if pid else None

    def end(self, seconds: float) -> None:
        """Give it ``seconds`` to end by itself, then kill it; it is reaped either way."""
        if not self.ends_within(seconds):
            self.kill()

    def ends_within(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for its end; returns whether it ended, and reaps it."""
        if self.died() is None:
            with PidFd(self.pid) as process:
                process.wait(seconds)
        return self.died() is not None

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
        """Rotate its log once that is long; its owner calls this a few times a second."""
        rotate(self.log)

    def __repr__(self) -> str:
        return f"<Child {self.pid} {self.log.name}>"


class ProcessSpec(msgspec.Struct, frozen=True):
    """A process to make: one that runs as ``python -m module arguments``."""

    module: str
    arguments: tuple[str, ...]
    threads: int = 1
    """How many compute threads it has."""
    keeps_heap: bool = False
    """Whether it gives no memory back before its end (``heap``)."""
    apart: bool = False
    """Makes it the first process of a PID namespace and of a session.

    Then its image can be restored many times.
    """


class Starter(Protocol):
    """A way to make a process.

    The process appends its output to ``log``, unless ``stdout`` is given, and reads ``stdin``, or
    nothing.
    """

    def __call__(
        self,
        spec: ProcessSpec,
        log: Path,
        *,
        stdin: IO[bytes] | None = None,
        stdout: IO[bytes] | None = None,
    ) -> Child:
        """Make the process."""


def start(
    spec: ProcessSpec,
    log: Path,
    *,
    stdin: IO[bytes] | None = None,
    stdout: IO[bytes] | None = None,
    prefix: Sequence[str] = (),
    inherits: Sequence[int] = (),
    account: SystemAccount | None = None,
) -> Child:
    """Start a process, with its log, that imports everything itself: a ``Starter``."""
    with streams_to(log, stdin, stdout) as streams:
        return Child(spawn(spec, streams, prefix, inherits, account), log)


@contextmanager
def streams_to(
    log: Path, stdin: IO[bytes] | None = None, stdout: IO[bytes] | None = None
) -> Iterator[Streams]:
    """Open the standard streams that ``Starter`` describes."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with opened(log, "ab") as output, Path(os.devnull).open("rb") as nothing:
        yield stdin or nothing, stdout or output, output


def spawn(
    spec: ProcessSpec, streams: Streams, prefix: Sequence[str] = (), inherits: Sequence[int] = (),
    account: SystemAccount | None = None,
) -> subprocess.Popen[bytes]:  # fmt: skip
    """Start a process that imports everything itself, with these standard streams.

    ``prefix`` is a command that runs it, such as ``numactl --physcpubind=1``; descriptors that it
    ``inherits`` keep their numbers. Only root can start one of an ``account``.
    """
    stdin, stdout, stderr = streams
    variables = environment(spec.threads, keeps_heap=spec.keeps_heap)
    entry = () if account is None else account.entry
    return subprocess.Popen(
        [*entry, *prefix, *(_APART if spec.apart else ()), *command(spec.module, *spec.arguments)],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=variables if account is None else account.environment(variables),
        start_new_session=True,  # Ctrl-C reaches only the supervisor, which ends the others
        pass_fds=inherits,
        **({} if account is None else account.switching),
    )


def command(module: str, *arguments: str) -> list[str]:
    """How to run a module of ours in a process that ends with its parent.

    ``-P`` keeps the working directory off the import path, so no file of the user's shadows ours.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def environment(threads: int, *, keeps_heap: bool = False) -> Mapping[str, str]:
    """Environment variables of a process of ours: compute threads, and its parent's process id."""
    parent = {"ARTOS_PARENT": str(os.getpid())}
    tuned = heap.ENVIRONMENT if keeps_heap else {}
    return {**os.environ, **computing(threads), **parent, **tuned}


def computing(threads: int) -> Mapping[str, str]:
    """Environment variables that numeric libraries read when they are loaded."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    spins = {} if _OWN_WAITS & os.environ.keys() else {"GOMP_SPINCOUNT": str(_SPINS)}
    return {**dict.fromkeys(names, str(threads)), **spins}


def begin_member() -> None:
    """The first call in a member: end with the parent, and have a crash leave its stack in the log.

    The exit status alone may mislead: the first process of a PID namespace, as every clone is,
    ends by a signal other than the one that it was sent.
    """
    end_with_parent()
    print_whatever_happens()
    faulthandler.enable()


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Ask the kernel to send this process signal ``number`` when its parent ends; ignore SIGTERM.

    In a PID namespace of its own the parent has no process id: then only the kernel can tell.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    expected = os.environ.get("ARTOS_PARENT")
    if expected and os.getppid() not in (0, int(expected)):
        os._exit(1)  # the parent ended before the request took effect
    ignore_sigterm()


def ignore_sigterm() -> None:
    """Leave it to a daemon when this process ends: an engine may send SIGTERM to a whole job.

    Processes that are forked here are their maker's to end.
    """
    signal.signal(signal.SIGTERM, _ignore)
    signal.siginterrupt(signal.SIGTERM, False)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing."""


def _heed_sigterm() -> None:
    if signal.getsignal(signal.SIGTERM) is _ignore:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


os.register_at_fork(after_in_child=_heed_sigterm)


def adopts_orphans() -> bool:
    """Whether this process adopts its descendants when their parents end."""
    answer = ctypes.c_int()
    _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.addressof(answer))
    return bool(answer.value)


def adopt_orphans(yes: bool = True) -> None:
    """Set whether this process adopts its descendants when their parents end."""
    _prctl(_PR_SET_CHILD_SUBREAPER, int(yes))


def _prctl(option: int, argument: int) -> None:
    rest = (ctypes.c_ulong(0),) * 3
    ctypes.CDLL(None, use_errno=True).prctl(option, ctypes.c_ulong(argument), *rest)


def fork_aside(*, apart: bool = False) -> int:
    """Fork a process that is our parent's child, not ours, in a session of its own.

    A helper process forks it and ends, so the kernel gives it to the next ancestor that adopts
    orphans. The new process waits for that, because the signal at its parent's end is bound to
    the parent that it has when it asks. ``apart`` makes it the first of a PID namespace, so that
    its image can be restored many times.

    Returns 0 in the new process, its process id here.

    Raises:
        OSError: no process could be made.
    """
    told, tell = os.pipe()
    gate, opener = os.pipe()
    helper = os.fork()
    if helper == 0:
        _fork_and_end(tell, apart)
        for descriptor in (told, tell, opener):
            os.close(descriptor)
        if not os.read(gate, 1):
            os._exit(1)  # the forking process ended before we were adopted
        os.close(gate)
        os.setsid()
        end_with_parent()
        return 0
    os.close(gate)
    os.close(tell)
    os.waitpid(helper, 0)
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
    """Run in the helper process; returns only in the process that it forks."""
    # Makes the next process we fork the first of a namespace (os.unshare came with Python 3.12).
    if apart and ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWPID) == -1:
        child = -(ctypes.get_errno() or errno.EAGAIN)
    else:
        try:
            child = os.fork()
        except OSError as error:
            child = -(error.errno or errno.EAGAIN)
    if child:
        os.write(tell, b"%d" % child)
        os._exit(0)
