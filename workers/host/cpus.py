"""A slot for each CPU that this process may really use, and the memory node of each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from artos.system.cgroups import ROOT, numbers, text
from artos.system.usable_cpus import usable_cpus
from workers.host.slots import Slot

_NODES = "sys/devices/system/node"


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
    """A slot for each usable CPU. Its node is None if there is no choice of memory."""
    nodes, memory = numa_nodes(root), memory_nodes(root)
    return tuple(
        Slot(cpu, nodes[cpu] if len(memory) > 1 and nodes.get(cpu) in memory else None)
        for cpu in usable_cpus(root, affinity)
    )
