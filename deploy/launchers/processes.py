"""Units that are processes of this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress

import psutil

from artos.system.regular_file import contents, opened
from deploy.launchers.cluster import Cluster
from deploy.launchers.launcher import Unit

_PID = "pid"
_SAME = 1.0
"""Seconds by which two readings of when a process began may differ."""


def start(cluster: Cluster, index: int) -> None:
    """Start a unit that outlives this process, unless it lives."""
    if any(found(cluster, index)):
        return
    with opened(cluster.log(index), "ab") as file:
        child = subprocess.Popen(
            cluster.unit(index), stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            cwd=cluster.path, start_new_session=True,
        )  # fmt: skip
    began = psutil.Process(child.pid).create_time()
    cluster.note(index, _PID).write_text(f"{child.pid} {began}")


def found(cluster: Cluster, index: int) -> Iterator[Unit]:
    """The unit of that index, if it lives."""
    with suppress(OSError, ValueError, psutil.Error):
        pid, began = contents(cluster.note(index, _PID)).split()
        process = psutil.Process(int(pid))
        lives = abs(process.create_time() - float(began)) < _SAME
        if lives and process.status() != psutil.STATUS_ZOMBIE:
            yield Unit(index, pid.decode(), "runs", "this machine", "", float(began))


def stop(unit: Unit, *, now: bool) -> None:
    """Send a unit that was ``found`` SIGTERM, or SIGKILL ``now``."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(int(unit.id))
        if abs(process.create_time() - unit.since) < _SAME:
            (process.kill if now else process.terminate)()


def clear(cluster: Cluster, index: int) -> None:
    """Remove what ``start`` wrote down."""
    cluster.note(index, _PID).unlink(missing_ok=True)
