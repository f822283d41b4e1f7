"""The CPUs this process may really use, and the memory node of each."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from artos.system.cgroups import ROOT, groups, numbers, text
from workers.host.slots import Slot

_NODES = "sys/devices/system/node"


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


def numa_nodes(root: Path = ROOT) -> dict[int, int]:
    """The memory node of each CPU; empty where the kernel knows no nodes."""
    found = {}
    for folder in (root / _NODES).glob("node*"):
        if number := re.fullmatch(r"node(\d+)", folder.name):
            for cpu in numbers(text(folder / "cpulist")):
                found[cpu] = int(number[1])
    return found


def memory_nodes(root: Path = ROOT) -> frozenset[int]:
    """Nodes that have memory and whose memory this process may use."""
    allowed = re.search(r"^Mems_allowed_list:\s*(\S+)", text(root / "proc/self/status"), re.M)
    present = frozenset(numbers(text(root / _NODES / "has_memory")))
    return present & frozenset(numbers(allowed[1])) if allowed else present


def host_slots(root: Path = ROOT, affinity: Iterable[int] | None = None) -> tuple[Slot, ...]:
    """A slot for each usable CPU. Its node is None where there is no choice of memory."""
    nodes, memory = numa_nodes(root), memory_nodes(root)
    return tuple(
        Slot(cpu, nodes[cpu] if len(memory) > 1 and nodes.get(cpu) in memory else None)
        for cpu in usable_cpus(root, affinity)
    )


def _quota(folder: Path) -> float | None:
    allowed, _, period = text(folder / "cpu.max").partition(" ")  # version 2: "max 100000"
    if not allowed:
        allowed = text(folder / "cpu.cfs_quota_us")  # version 1: -1 is no limit
        period = text(folder / "cpu.cfs_period_us")
    if allowed in ("", "max", "-1") or not period:
        return None
    return int(allowed) / int(period)
