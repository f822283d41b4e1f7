"""How much more memory the control groups of this process allow it, shared memory included."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from artos.system.cgroups import ROOT, groups, text

_TAKEN = ("anon", "shmem"), ("total_rss", "total_shmem")
"""Memory that the kernel cannot take back, unlike file caches: in version 2, in version 1."""


def memory_left(root: Path = ROOT) -> int | None:
    """Bytes, by the group that leaves least; None without a limit.

    Beyond the limit the kernel kills a process of the group; no allocation fails.
    """
    lefts = []
    for folder, limit in _limits(root):
        lines = (line.split() for line in text(folder / "memory.stat").splitlines())
        found = {name: int(value) for name, value in lines}
        taken = max(sum(found.get(name, 0) for name in names) for names in _TAKEN)
        lefts.append(max(0, limit - taken))
    return min(lefts, default=None)


def memory_limit(root: Path = ROOT) -> int | None:
    """Bytes that they allow in all, taken or not; None without a limit."""
    return min((limit for _, limit in _limits(root)), default=None)


def _limits(root: Path) -> Iterator[tuple[Path, int]]:
    for folder in groups("memory", root):
        limit = text(folder / "memory.max") or text(folder / "memory.limit_in_bytes")
        if limit.isdecimal():
            yield folder, int(limit)
