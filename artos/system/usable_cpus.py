"""The CPUs this process may really use: by its affinity mask, and by the quota of its groups."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from artos.system.cgroups import ROOT, groups, text


def usable_cpus(root: Path = ROOT, affinity: Iterable[int] | None = None) -> tuple[int, ...]:
    """CPUs that actors may be pinned to, in order; at least one.

    These are the CPUs of the affinity mask (by default this process's), but no more than the
    control groups' quota allows: a mask of eight CPUs under a quota of 2.5 gives the first two,
    as a third would be throttled half of its time.
    """
    mask = sorted(os.sched_getaffinity(0) if affinity is None else affinity)
    quota = cpu_quota(root)
    return tuple(mask if quota is None else mask[: max(1, int(quota))])


def cpu_quota(root: Path = ROOT) -> float | None:
    """The CPU time that the control groups allow, in CPUs; None without a limit."""
    return min(
        (q for folder in groups("cpu", root) if (q := _quota(folder)) is not None), default=None
    )


def _quota(folder: Path) -> float | None:
    allowed, _, period = text(folder / "cpu.max").partition(" ")  # version 2: "max 100000"
    if not allowed:
        allowed = text(folder / "cpu.cfs_quota_us")  # version 1: -1 is no limit
        period = text(folder / "cpu.cfs_period_us")
    if allowed in ("", "max", "-1") or not period:
        return None
    return int(allowed) / int(period)
