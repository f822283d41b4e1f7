"""What others leave of the CPUs of a mask and of a group's quota, on made-up hosts and here."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest
from worker_hosts import V1, V2, make_host

from artos.system.free_cpus import CpuMeter, Measured, Share, left_by_others

STAT = "\n".join(
    [
        "cpu  1000 0 0 9000 0 0 0 0 0 0",
        # user, nice, system, idle, iowait, irq, softirq, steal, guest (part of user), its nice
        "cpu0 100 10 20 700 30 1 2 37 50 5",
        "cpu1 300 0 0 700 0 0 0 0 0 0",
        "cpu2 999 0 0 1 0 0 0 0 0 0",
        "intr 1 2 3",
    ]
)


def test_the_cpus_of_the_mask_are_counted_with_all_but_idle_time(tmp_path: Path) -> None:
    host = make_host(tmp_path, V2 | {"proc/stat": STAT})
    assert CpuMeter(host, {0, 1})().shares == (Share(2, pytest.approx(1.7 + 3.0)),)


def test_a_quota_of_version_2_counts_beside_them(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/apps"
    files = {
        "proc/stat": STAT,
        f"{group}/cpu.max": "150000 100000",
        f"{group}/cpu.stat": "usage_usec 2500000\nuser_usec 1",
        f"{group}/job/cpu.max": "max 100000",
    }
    host = make_host(tmp_path, V2 | files)
    assert CpuMeter(host, {2})().shares == (Share(1, pytest.approx(9.99)), Share(1.5, 2.5))


def test_so_does_one_of_version_1_where_its_use_is_counted_in_the_same_tree(tmp_path: Path) -> None:
    tree = "sys/fs/cgroup/cpu,cpuacct/job"
    files = {f"{tree}/cpu.cfs_quota_us": "50000", f"{tree}/cpu.cfs_period_us": "100000"}
    host = make_host(tmp_path, V1 | files)
    assert CpuMeter(host, {0})().shares == ()
    make_host(tmp_path, {f"{tree}/cpuacct.usage": "7000000000"})
    assert CpuMeter(host, {0})().shares == (Share(0.5, 7.0),)


def test_what_this_process_used_itself_is_left_by_others() -> None:
    before = Measured(10.0, 1.0, (Share(4, 100.0), Share(2.5, 50.0)))
    after = Measured(12.0, 4.0, (Share(4, 104.0), Share(2.5, 53.5)))
    assert left_by_others(before, after) == pytest.approx(min(4 * 2 - 1, 2.5 * 2 - 0.5))


def test_nobody_leaves_more_than_there_is() -> None:
    before, after = Measured(0.0, 0.0, (Share(2, 5.0),)), Measured(1.0, 1.9, (Share(2, 6.8),))
    assert left_by_others(before, after) == 2.0


def test_where_nothing_is_counted_all_is_free(tmp_path: Path) -> None:
    nothing = CpuMeter(tmp_path)()
    assert left_by_others(nothing, nothing) == math.inf


def test_this_machine_counts_what_this_process_uses() -> None:
    meter = CpuMeter()
    before = meter()
    while time.process_time() < before.own + 0.05:
        pass
    after = meter()
    assert before.shares
    for then, now in zip(before.shares, after.shares, strict=True):
        assert then.cpus == now.cpus > 0
        assert now.used >= then.used
