"""The CPU priority of work that nobody waits for yet: low, and as usual once somebody does."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import cache
from pathlib import Path

GENTLE = 10
"""Added niceness: about a tenth of a CPU that others want, and all of one that is idle."""
_LOWEST = 19
_EFFECTIVE = re.compile(r"^CapEff:\s*([0-9a-f]+)", re.MULTILINE)
_SYS_NICE = 23


def lower(group: int) -> None:
    """Give a process group a low priority, if it can be raised again. No error if it has ended.

    What is never raised could hold up whoever waits for it; and CRIU fails where it may not give a
    restored process the priority that is in its image.
    """
    if may_raise():
        _set(group, min(_LOWEST, os.getpriority(os.PRIO_PROCESS, 0) + GENTLE))


def usual(group: int) -> None:
    """Give a process group the priority of this process. No error if it has ended."""
    if may_raise():
        _set(group, os.getpriority(os.PRIO_PROCESS, 0))


@cache
def may_raise() -> bool:
    """Whether this process may raise priorities: it has ``CAP_SYS_NICE`` (capabilities(7))."""
    found = _EFFECTIVE.search(Path("/proc/self/status").read_text())
    return found is not None and bool(int(found[1], 16) >> _SYS_NICE & 1)


def _set(group: int, niceness: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.setpriority(os.PRIO_PGRP, group, niceness)
