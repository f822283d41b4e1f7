"""How much memory control groups leave, read from made-up hosts."""

from __future__ import annotations

from pathlib import Path

import pytest
from worker_hosts import V1, V2, make_host

from artos.system.memory_limit import memory_left, memory_limit

JOB = "sys/fs/cgroup/apps/job"
STAT = "anon 3000\nfile 90000\nshmem 500\ninactive_file 80000"


@pytest.mark.parametrize(("limit", "left"), [("max", None), ("10000", 6500), ("2000", 0)])
def test_caches_of_files_are_no_hindrance(tmp_path: Path, limit: str, left: int | None) -> None:
    host = make_host(tmp_path, V2 | {f"{JOB}/memory.max": limit, f"{JOB}/memory.stat": STAT})
    assert memory_left(host) == left


def test_the_group_that_leaves_least_counts(tmp_path: Path) -> None:
    files = {f"{JOB}/memory.max": "9000", "sys/fs/cgroup/apps/memory.max": "8000"}
    stats = {f"{JOB}/memory.stat": STAT, "sys/fs/cgroup/apps/memory.stat": "anon 7000\nshmem 600"}
    host = make_host(tmp_path, V2 | files | stats)
    assert (memory_left(host), memory_limit(host)) == (400, 8000)


def test_version_1_counts_what_is_below_a_group(tmp_path: Path) -> None:
    tree = "sys/fs/cgroup/memory/job"
    files = {
        f"{tree}/memory.limit_in_bytes": "10000",
        f"{tree}/memory.stat": "cache 9000\nrss 1\nshmem 2\ntotal_rss 3000\ntotal_shmem 1000",
    }
    assert memory_left(make_host(tmp_path, V1 | files)) == 6000


def test_without_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert memory_left(tmp_path) is None
    assert memory_limit(tmp_path) is None
