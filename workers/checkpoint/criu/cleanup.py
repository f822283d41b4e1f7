"""Half-restored processes that a CRIU which died left behind: found, killed, reaped.

CRIU makes the restored process a child of ours from its first moment on, so if CRIU dies nobody
else ends it. It is known by CRIU's environment as long as it still has CRIU's memory, later by the
files that only this restore gave it, and as a zombie by the process group it came from.
"""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from artos.system.pidfd import PidFd

MARK = "ARTOS_RESTORE"
"""Environment variable of a CRIU process of ours, with a value that no other has."""

_PATIENCE = 5.0


@dataclass
class Traces:
    """How to know what a restore made.

    ``mark`` is the value of its variable, ``criu`` the number of CRIU's process and group,
    ``began`` when that started (clock ticks since boot), ``files`` (device and inode) what only
    this restore handed out, ``pid`` the process that CRIU says it made.
    """

    mark: str
    criu: int = 0
    began: int = 0
    files: set[tuple[int, int]] = field(default_factory=set)
    pid: int = -1

    def add_criu(self, pid: int) -> None:
        """Note CRIU's process, before anybody reaps it."""
        self.criu, self.began = pid, _started(pid)

    def add_file(self, descriptor: int) -> None:
        """Note an open file; only regular ones, others hold devices too."""
        about = os.fstat(descriptor)
        if stat.S_ISREG(about.st_mode):
            self.files.add((about.st_dev, about.st_ino))


def end_half_restored(traces: Traces) -> list[int]:
    """Kill and reap what a restore left; returns the process ids."""
    ours = [child.pid for child in psutil.Process().children() if _is_of(child, traces)]
    for pid in ours:
        end(pid)
    return ours


def end(pid: int) -> None:
    """Kill and reap a child of ours; fine if it is gone already, or somebody else's."""
    with suppress(psutil.NoSuchProcess):
        if psutil.Process(pid).ppid() != os.getpid():
            return
        with PidFd(pid) as process:
            process.signal(signal.SIGKILL)
            process.wait(_PATIENCE)
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _is_of(child: psutil.Process, traces: Traces) -> bool:
    pid = child.pid
    try:
        # Whatever is older cannot be of it, even if it holds the same files.
        if pid == traces.criu or _started(pid) < traces.began:
            return False
        if pid == traces.pid or os.getpgid(pid) == traces.criu:
            return True
        if child.status() == psutil.STATUS_ZOMBIE:
            return child.name() == "criu" and _is_in_own_namespace(pid)
        return _has_mark(pid, traces.mark) or _holds(pid, traces.files)
    except (psutil.NoSuchProcess, ProcessLookupError, FileNotFoundError):
        return False


def _started(pid: int) -> int:
    """When a process started, in clock ticks since boot."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def _has_mark(pid: int, mark: str) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{MARK}={mark}".encode() in environment.split(b"\0")


def _is_in_own_namespace(pid: int) -> bool:
    """Whether it has a number in a PID namespace below ours; CRIU itself has not."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return len(line.split()) > 2
    return False


def _holds(pid: int, wanted: set[tuple[int, int]]) -> bool:
    return any(file in wanted for file in _open_files(pid))


def _open_files(pid: int) -> Iterator[tuple[int, int]]:
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                about = link.stat()
                yield about.st_dev, about.st_ino
