"""Finds, kills and reaps the half-restored process that a dead CRIU left behind.

CRIU makes the restored process a child of this process from its first moment on, so if CRIU dies
nothing else ends it. It is recognised by CRIU's environment as long as it still has CRIU's memory,
later by the files that only this restore gave it. One that is about to end, or has ended, has
neither; it is recognised by its age and a PID namespace of its own. Any other child that this fits
has ended by itself at the same moment, and loses no more than its exit status.
"""

from __future__ import annotations

import os
import signal
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from artos.system.pidfd import PidFd
from artos.system.process_stat import ProcessStat

MARK = "ARTOS_RESTORE"
"""Environment variable that marks a CRIU process of ours; its value is unique."""

_PATIENCE = 5.0


@dataclass
class Traces:
    """The traces by which a restore's process is recognised."""

    mark: str
    """The value of its environment variable ``MARK``."""
    criu: int = 0
    """The id of CRIU's process and group."""
    began: int = 0
    """When CRIU started, in clock ticks since boot."""
    files: set[tuple[int, int]] = field(default_factory=set)
    """Device and inode of the files that only this restore handed out."""
    pid: int = -1
    """The process that CRIU says it made."""

    def add_criu(self, pid: int) -> None:
        """Note CRIU's process, before it is reaped."""
        self.criu, self.began = pid, ProcessStat.of(pid).started

    def add_file(self, descriptor: int) -> None:
        """Note an open file if it is regular; other processes hold devices and pipes too."""
        about = os.fstat(descriptor)
        if stat.S_ISREG(about.st_mode):
            self.files.add((about.st_dev, about.st_ino))


def end_half_restored(traces: Traces) -> list[int]:
    """Kill and reap the processes that a restore left; returns their process ids."""
    ours = [child.pid for child in psutil.Process().children() if _is_of(child, traces)]
    for pid in ours:
        end(pid)
    return ours


def end(pid: int) -> None:
    """Kill and reap a child of ours. No error if it is gone, or not a child of ours."""
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
        # An older process cannot come from this restore, even if it holds the same files.
        if pid == traces.criu or ProcessStat.of(pid).started < traces.began:
            return False
        if pid == traces.pid or os.getpgid(pid) == traces.criu:
            return True
        if not child.memory_info().vms:
            return _is_in_own_namespace(pid)
        return _has_mark(pid, traces.mark) or _holds(pid, traces.files)
    except (psutil.NoSuchProcess, ProcessLookupError, FileNotFoundError):
        return False


def _has_mark(pid: int, mark: str) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{MARK}={mark}".encode() in environment.split(b"\0")


def _is_in_own_namespace(pid: int) -> bool:
    """Whether it has a pid in a PID namespace below ours; CRIU itself has none."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return len(line.split()) > 2
    return False


def _holds(pid: int, wanted: set[tuple[int, int]]) -> bool:
    """Whether it has one of these files (device and inode) open."""
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                about = link.stat()
                if (about.st_dev, about.st_ino) in wanted:
                    return True
    return False
