"""Freezing a process with all it started: it keeps its memory and uses no CPU until thawed.

By SIGSTOP and SIGCONT, not by the kernel's freezer groups. Those of version 1 also hold SIGKILL
back, so an actor frozen in one would outlive a supervisor that is killed. Those of version 2 do
not, but moving a process into its group takes about 10 ms for which the supervisor would stand
still; a signal takes microseconds and no privileges, also across PID namespaces.

A stopped child is not a dead one: ``waitpid`` only reports it when asked to (WUNTRACED), which
nothing here does. Killing works at once, frozen or not.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def freeze(pid: int) -> None:
    """Stop a process and all its descendants. Returns at once, a moment before they stand still.

    A child that the kernel was just about to make escapes; freezing again catches it. A process
    that is gone is nothing to freeze: whoever reaps it tells of its death.
    """
    for each in family(pid):  # lazily: its children are listed after it was told to stop
        _send(each, signal.SIGSTOP)


def thaw(pid: int) -> None:
    """Let a process and all its descendants go on; fine if they were not frozen, or are gone."""
    for each in reversed([*family(pid)]):
        _send(each, signal.SIGCONT)


def family(pid: int) -> Iterator[int]:
    """The process and its descendants, parents first."""
    yield pid
    # By the kernel's own lists: psutil reads the parent of each process of the machine instead.
    for task in _tasks(pid):
        with suppress(OSError):
            for child in (task / "children").read_text().split():
                yield from family(int(child))


def _send(pid: int, number: signal.Signals) -> None:
    # Gone, or another user's (a program that changed its user): the others are frozen even so.
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _tasks(pid: int) -> list[Path]:
    try:
        return [*Path(f"/proc/{pid}/task").iterdir()]
    except FileNotFoundError:
        return []
