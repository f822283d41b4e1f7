"""The CPU priority of work that nothing waits for yet: low, and as usual once something does.

Niceness counts only among processes that the kernel weighs against one another. With autogroup
(sched(7)) these are the processes of one session, and sessions have equal shares, so that a session
with a single process outweighs each of two threads of another. So the session is made nice, too.
"""

from __future__ import annotations

import math
import os
import re
from contextlib import suppress
from functools import cache
from pathlib import Path

GENTLE = 10
"""Added niceness: about a tenth of a CPU that others want, and all of one that is idle."""
_LOWEST = 19
_STEP = 1.25  # each level of niceness weighs so many times less than the one above it
_EFFECTIVE = re.compile(r"^CapEff:\s*([0-9a-f]+)", re.MULTILINE)
_SYS_ADMIN, _SYS_NICE = 21, 23
_SESSIONS = Path("/proc/sys/kernel/sched_autogroup_enabled")


def lower(group: int, by: int = GENTLE) -> None:
    """Give a process group a low priority, if it can be raised again. No error if it has ended.

    A priority that is never raised could hold up a process that waits; and CRIU fails where it may
    not give a restored process the priority that is in its image.
    """
    if may_raise():
        _set(group, by)


def usual(group: int) -> None:
    """Give a process group the priority of this process. No error if it has ended."""
    if may_raise():
        _set(group, 0)


def niceness_for(share: float, rivals: float = 1.0) -> int:
    """The added niceness with which a process gets this share of a CPU that others want as well.

    ``rivals`` is their weight, 1 for a process with the usual priority.
    """
    weight = rivals * share / max(1.0 - share, 1e-9)
    return max(0, min(_LOWEST, round(-math.log(max(weight, 1e-9), _STEP))))


def rivals() -> float:
    """The weight on one CPU of a process that computes on all of them, such as a learner."""
    with suppress(OSError):
        if _SESSIONS.read_text().strip() == "1":  # its session's share is divided among the CPUs
            return 1.0 / len(os.sched_getaffinity(0))
    return 1.0


def may_raise() -> bool:
    """Whether this process may raise priorities: it has ``CAP_SYS_NICE`` (capabilities(7))."""
    return _may(_SYS_NICE)


@cache
def _may(capability: int) -> bool:
    found = _EFFECTIVE.search(Path("/proc/self/status").read_text())
    return found is not None and bool(int(found[1], 16) >> capability & 1)


def _set(group: int, by: int) -> None:
    niceness = min(_LOWEST, os.getpriority(os.PRIO_PROCESS, 0) + by)
    with suppress(ProcessLookupError, PermissionError):
        os.setpriority(os.PRIO_PGRP, group, niceness)
    if _may(_SYS_ADMIN):  # others may only ask ten times a second
        with suppress(OSError):  # without autogroup there is nothing to set
            # A session that the process only belongs to is left alone.
            if os.getsid(group) == group:
                Path(f"/proc/{group}/autogroup").write_text(str(min(_LOWEST, by)))
