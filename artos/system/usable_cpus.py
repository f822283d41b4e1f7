"""The CPUs this process may really use: by its affinity mask, and by the quota of its groups."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path

from artos.system.cgroups import ROOT, groups, text


def usable_cpus(root: Path = ROOT, affinity: Iterable[int] | None = None) -> tuple[int, ...]:
    """CPUs that actors may be pinned to, in order.

    These are the CPUs in the affinity mask (by default this process's), but no more than it takes
    to use up the control groups' quota: a mask of eight CPUs under a quota of 1.5 gives the first
    two. With only one, a third of the quota would go unused while nothing but actors runs.
    """
    mask = sorted(os.sched_getaffinity(0) if affinity is None else affinity)
    quota = cpu_quota(root)
    return tuple(mask if quota is None else mask[: max(1, math.ceil(quota))])


def cpu_quota(root: Path = ROOT) -> float | None:
    """The CPU time that the control groups allow, in CPUs; None without a limit."""
    return min(
        (q for folder in groups("cpu", root) if (q := quota_of(folder)) is not None), default=None
    )


def quota_of(folder: Path) -> float | None:
    """The CPU time that one control group allows, in CPUs; None without a limit."""
    allowed, _, period = text(folder / "cpu.max").partition(" ")  # version 2: "max 100000"
    if not allowed:
        allowed = text(folder / "cpu.cfs_quota_us")  # version 1: -1 is no limit
        period = text(folder / "cpu.cfs_period_us")
    if allowed in ("", "max", "-1") or not period:
        return None
    return int(allowed) / int(period)
