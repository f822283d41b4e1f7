"""Starting a member process, and ending with the one that started it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_PR_SET_PDEATHSIG = 1

# One arena that never shrinks, in huge pages where the kernel has them: activations of every
# minibatch reuse the same memory instead of faulting fresh pages in, which makes a CNN learner a
# quarter faster.
_TUNABLES = {
    "hugetlb": 1,
    "mmap_threshold": 4 << 30,
    "trim_threshold": 8 << 30,
    "top_pad": 64 << 20,
}
_LEARNER_ENV = {
    "GLIBC_TUNABLES": ":".join(f"glibc.malloc.{name}={value}" for name, value in _TUNABLES.items())
}


class Child:
    """A process of ours with its log file; knows when it died and of what."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process, self.log = process, log

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def died(self) -> int | None:
        """Its exit status if it is gone (negative: killed by that signal), else None. Reaps it."""
        return self._process.poll()

    def end(self, seconds: float) -> None:
        """Give it ``seconds`` to end by itself, then kill it; it is reaped in any case."""
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        """SIGKILL, and reap."""
        self._process.kill()
        self._process.wait()

    def log_tail(self, lines: int = 12) -> str:
        """The last lines it wrote."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return ""


def start(module: str, arguments: list[str], log: Path, threads: int, learner: bool) -> Child:
    """Start ``python -m module arguments`` with its output in ``log`` (appended)."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            command(module, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment(threads, learner=learner),
            start_new_session=True,  # Ctrl-C reaches only the supervisor, which ends the others
        )
    return Child(process, log)


def command(module: str, *arguments: str) -> list[str]:
    """How to run a module of ours in a process that ends with its parent.

    ``-P`` keeps the working directory off the import path, so no file of the user's shadows ours.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def environment(threads: int, *, learner: bool = False) -> Mapping[str, str]:
    """Environment variables of a process of ours: compute threads, and who its parent is."""
    count = str(threads)
    fixed = {"OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count}
    parent = {"ARTOS_PARENT": str(os.getpid())}
    return {**os.environ, **fixed, **parent, **(_LEARNER_ENV if learner else {})}


def end_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies; called first thing in a member."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    expected = os.environ.get("ARTOS_PARENT")
    if expected and os.getppid() != int(expected):
        os._exit(1)  # the parent died before the request took effect
