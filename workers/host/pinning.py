"""Pins a process to the CPUs and memory node of its slot, and verifies it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from artos.errors import NotPinned
from workers.host.slots import Slot

_ALLOWED = re.compile(r"^Cpus_allowed_list:\s*(\S*)", re.MULTILINE)


class Prefix(Protocol):
    """Makes the prefix of a command that starts or restores a process, on a slot or on none."""

    def __call__(self, slot: Slot | None, *, any_cpu: bool = False) -> Sequence[str]:
        """The prefix; with ``any_cpu`` for any idle CPU near the slot's memory."""


def numactl_prefix(slot: Slot, *, any_cpu: bool = False) -> list[str]:
    """A ``Prefix`` that runs the command under ``numactl``.

    Affinity and memory policy are inherited and not part of an image: a restored process has
    those of the process that restores it.
    """
    words = [] if any_cpu else [f"--physcpubind={listed(slot.cpus)}"]
    words += [] if slot.node is None else [f"--membind={slot.node}"]
    return ["numactl", *words] if words else []


def listed(cpus: Iterable[int]) -> str:
    """CPUs as the kernel lists them: ``0-2,7``."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][-1] + 1:
            ranges[-1][1:] = [cpu]
        else:
            ranges.append([cpu])
    return ",".join("-".join(map(str, each)) for each in ranges)


def pin(pid: int, slot: Slot) -> None:
    """Move every thread of a live process to the slot's CPUs. Its memory stays where it is.

    Raises:
        NotPinned: the kernel did not do it, or the process is gone.
    """
    done: set[int] = set()
    # A thread that is not pinned yet may start another one: repeat until none is new.
    while new := _threads(pid) - done:
        for thread in new:
            with suppress(OSError):  # it ended, or this is not permitted: `verify` finds out
                os.sched_setaffinity(thread, slot.cpus)
        done |= new
    verify(pid, slot)


def verify(pid: int, slot: Slot) -> None:
    """Check in /proc that every thread of a process may run on the slot's CPUs and on no other.

    Raises:
        NotPinned: some thread may run elsewhere, or the process is gone.
    """
    found = dict[int, str]()
    for thread in _threads(pid):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            status = Path(f"/proc/{pid}/task/{thread}/status").read_text()
            if (match := _ALLOWED.search(status)) and match[1]:
                found[thread] = match[1]  # as the kernel lists CPUs
    if set(found.values()) != {wanted := listed(slot.cpus)}:
        raise NotPinned(pid, wanted, found)


def _threads(pid: int) -> set[int]:
    try:
        return {int(name) for name in os.listdir(f"/proc/{pid}/task")}  # noqa: PTH208 (names)
    except FileNotFoundError:
        return set()
