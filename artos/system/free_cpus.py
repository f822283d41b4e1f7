"""How many CPUs others leave to this process, by what the kernel counts of all of them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from artos.system.cgroups import ROOT, groups, text
from artos.system.usable_cpus import quota_of

_HERTZ = os.sysconf("SC_CLK_TCK")
_IDLE = (3, 4)
"""Fields of /proc/stat in which no process computes: idle, and waiting for a disk."""
_COUNTED = 8
"""So many fields come before those of guests, whose time is contained in the others."""


class Share(NamedTuple):
    """CPUs that several processes may use together."""

    cpus: float
    used: float
    """CPU-seconds that all of these processes have used."""


class Measured(NamedTuple):
    """What was used until a moment."""

    at: float
    """The moment, in seconds."""
    own: float
    """CPU-seconds of this process."""
    shares: tuple[Share, ...]


def left_by_others(before: Measured, after: Measured) -> float:
    """CPU-seconds that others left between two moments; infinite where nothing is counted."""
    seconds, own = after.at - before.at, after.own - before.own
    return min(
        (
            now.cpus * seconds - max(0.0, now.used - then.used - own)
            for then, now in zip(before.shares, after.shares, strict=False)
        ),
        default=math.inf,
    )


class CpuMeter:
    """Measures the CPUs in the affinity mask (by default this process's) and groups with a quota.

    Which these are is read once; each measurement takes about 0.1 ms.
    """

    def __init__(self, root: Path = ROOT, affinity: Iterable[int] | None = None) -> None:
        mask = os.sched_getaffinity(0) if affinity is None else affinity
        self._stat, self._mask = root / "proc/stat", {f"cpu{number}" for number in mask}
        quotas = ((folder, quota_of(folder)) for folder in groups("cpu", root))
        self._groups = [(folder, cpus) for folder, cpus in quotas if cpus is not None]

    def __call__(self) -> Measured:
        """What was used until now."""
        ticks, shares = 0, list[Share]()
        for line in text(self._stat).splitlines()[1:]:
            name, *fields = line.split()
            if not name.startswith("cpu"):
                break
            if name in self._mask:
                ticks += sum(int(f) for n, f in enumerate(fields[:_COUNTED]) if n not in _IDLE)
        if ticks:
            shares.append(Share(len(self._mask), ticks / _HERTZ))
        for folder, cpus in self._groups:
            if (used := _used(folder)) is not None:
                shares.append(Share(cpus, used))
        return Measured(time.perf_counter(), time.process_time(), tuple(shares))


def _used(group: Path) -> float | None:
    """CPU-seconds of a group; None where version 1 counts them in another tree."""
    for line in text(group / "cpu.stat").splitlines():
        if line.startswith("usage_usec "):
            return int(line.split()[1]) / 1e6
    counted = text(group / "cpuacct.usage")
    return int(counted) / 1e9 if counted else None
