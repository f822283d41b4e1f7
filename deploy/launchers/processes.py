"""Units that are processes of this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from artos.system.durable import write_durably
from artos.system.regular_file import contents, opened
from deploy.launchers.cluster import Cluster
from deploy.launchers.launcher import Unit

_PID = "pid"
_SAME = 1.0
"""Seconds by which two readings of when a process began may differ."""


def start(cluster: Cluster, index: int) -> None:
    """Start a unit that outlives this process, unless it lives.

    Raises:
        OSError: it cannot be started, or not be noted, as on a full disk; then it does not live.
    """
    if any(found(cluster, index)):
        return
    with opened(cluster.log(index), "ab") as file:
        child = subprocess.Popen(
            cluster.unit(index), stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            cwd=cluster.path, start_new_session=True,
        )  # fmt: skip
    try:
        write_durably(cluster.note(index, _PID), str(child.pid).encode())
    except BaseException:
        child.kill()  # nobody would find it again
        child.wait()
        raise


def found(cluster: Cluster, index: int) -> Iterator[Unit]:
    """The unit of that index, if it lives.

    It is known by its command, and by the folder that it works in, which is the cluster's also
    after that was moved: when a process began is reckoned from the clock, which may be set.
    """
    with suppress(OSError, ValueError, psutil.Error):
        pid, *_ = contents(cluster.note(index, _PID)).split()
        process = psutil.Process(int(pid))
        words, command = process.cmdline(), cluster.unit(index)
        # Before these there is the interpreter, or what runs it; one that has ended has no words.
        same = (words[-4:-2], words[-1:]) == ([*command[-4:-2]], [command[-1]])
        if same and Path(process.cwd()).samefile(cluster.path):
            yield Unit(index, str(process.pid), "runs", "this machine", "", process.create_time())


def stop(unit: Unit, *, now: bool) -> None:
    """Send a unit that was ``found`` SIGTERM, or SIGKILL ``now``."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(int(unit.id))
        if abs(process.create_time() - unit.since) < _SAME:
            (process.kill if now else process.terminate)()


def clear(cluster: Cluster, index: int) -> None:
    """Remove what ``start`` wrote down."""
    cluster.note(index, _PID).unlink(missing_ok=True)
