"""Processes to freeze, pin and count, made-up hosts to read, and what a host needs for a test."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from artos.clock import Deadline

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="PID namespaces need root")
needs_numactl = pytest.mark.skipif(
    shutil.which("numactl") is None, reason="numactl is not installed: `artos doctor` says how"
)
needs_two_cpus = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="there is only one CPU to be pinned to"
)


def until(what: str, holds: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until something holds; fails naming it if it never does."""
    deadline = Deadline(seconds)
    while not holds():
        assert not deadline.passed, f"gave up waiting until {what}"
        time.sleep(0.002)


def make_host(root: Path, files: Mapping[str, str]) -> Path:
    """A folder that stands for ``/`` of some host."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")
    return root


V2 = {
    "proc/self/cgroup": "0::/apps/job",
    "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw",
}
"""A host with control groups of version 2 only."""

V1 = {
    "proc/self/cgroup": "9:name=systemd:/\n4:memory:/job\n3:cpu,cpuacct:/job/inner\n0::/",
    "proc/self/mountinfo": "\n".join(
        [
            "22 1 8:1 / / rw - ext4 /dev/vda rw",
            "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw",
            "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct",
            "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
        ]
    ),
}
"""A host with both versions, as systemd calls hybrid."""
