"""Pins a process to the CPU and memory node of its slot, and verifies it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from artos.errors import NotPinned
from workers.host.slots import Slot

_ALLOWED = re.compile(r"^Cpus_allowed_list:\s*(\S*)", re.MULTILINE)


class Prefix(Protocol):
    """The prefix for a command that starts or restores a process on a slot, if on one."""

    def __call__(self, slot: Slot | None, *, any_cpu: bool = False) -> Sequence[str]:
        """``any_cpu``: near the slot's memory, wherever a CPU is idle."""


def numactl_prefix(slot: Slot, *, any_cpu: bool = False) -> list[str]:
    """See ``Prefix``.

    Affinity and memory policy are inherited and not part of an image: a restored process has
    those of the process that restores it.
    """
    words = [] if any_cpu else [f"--physcpubind={slot.cpu}"]
    words += [] if slot.node is None else [f"--membind={slot.node}"]
    return ["numactl", *words] if words else []


def pin(pid: int, slot: Slot) -> None:
    """Move every thread of a live process to the slot's CPU. Its memory stays where it is.

    Raises:
        NotPinned: the kernel did not do it, or the process is gone.
    """
    done: set[int] = set()
    # A thread that is not pinned yet may start another thread meanwhile: repeat until none is new.
    while new := _threads(pid) - done:
        for thread in new:
            with suppress(OSError):  # it ended, or this is not permitted: `verify` finds out
                os.sched_setaffinity(thread, {slot.cpu})
        done |= new
    verify(pid, slot)


def verify(pid: int, slot: Slot) -> None:
    """Check in /proc that every thread of a process may run on the slot's CPU and on no other.

    Raises:
        NotPinned: some thread may run elsewhere, or the process is gone.
    """
    found = {thread: cpus for thread in _threads(pid) if (cpus := _allowed(pid, thread))}
    if set(found.values()) != {str(slot.cpu)}:
        raise NotPinned(pid, slot.cpu, found)


def _threads(pid: int) -> set[int]:
    try:
        return {int(name) for name in os.listdir(f"/proc/{pid}/task")}  # noqa: PTH208 (names)
    except FileNotFoundError:
        return set()


def _allowed(pid: int, thread: int) -> str:
    """CPUs a thread may run on, as the kernel lists them; empty if it ended meanwhile."""
    try:
        status = Path(f"/proc/{pid}/task/{thread}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    match = _ALLOWED.search(status)
    return match[1] if match else ""
