"""Which CPUs an actor may be pinned to, read from made-up hosts and compared with this one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from worker_hosts import V1, V2, make_host

from artos.system.cgroups import groups, numbers
from artos.system.usable_cpus import cpu_quota, usable_cpus
from workers.host.cpus import host_slots, memory_nodes, numa_nodes
from workers.host.slots import Slot

EIGHT = range(8)


def test_without_a_quota_the_affinity_mask_counts(tmp_path: Path) -> None:
    assert usable_cpus(make_host(tmp_path, V2), affinity={5, 1, 3}) == (1, 3, 5)


def test_this_process_may_use_what_it_says() -> None:
    usable = usable_cpus()
    assert usable
    assert set(usable) <= os.sched_getaffinity(0)


@pytest.mark.parametrize(
    ("quota", "usable"),
    [("max 100000", 8), ("400000 100000", 4), ("150000 100000", 2), ("50000 100000", 1)],
)
def test_a_quota_of_version_2_is_used_up(tmp_path: Path, quota: str, usable: int) -> None:
    host = make_host(tmp_path, V2 | {"sys/fs/cgroup/apps/job/cpu.max": quota})
    assert usable_cpus(host, EIGHT) == tuple(range(usable))


def test_a_quota_above_the_mask_changes_nothing(tmp_path: Path) -> None:
    host = make_host(tmp_path, V2 | {"sys/fs/cgroup/apps/job/cpu.max": "900000 100000"})
    assert usable_cpus(host, {2, 6}) == (2, 6)


def test_the_tightest_group_above_counts(tmp_path: Path) -> None:
    above = {
        "sys/fs/cgroup/apps/job/cpu.max": "600000 100000",
        "sys/fs/cgroup/apps/cpu.max": "150000 50000",
    }
    assert cpu_quota(make_host(tmp_path, V2 | above)) == 3.0


def test_a_quota_of_version_1(tmp_path: Path) -> None:
    tree = "sys/fs/cgroup/cpu,cpuacct/job"
    files = {
        f"{tree}/inner/cpu.cfs_quota_us": "-1",
        f"{tree}/inner/cpu.cfs_period_us": "100000",
        f"{tree}/cpu.cfs_quota_us": "350000",
        f"{tree}/cpu.cfs_period_us": "100000",
    }
    host = make_host(tmp_path, V1 | files)
    assert cpu_quota(host) == 3.5
    assert usable_cpus(host, EIGHT) == (0, 1, 2, 3)


def test_a_container_sees_its_own_group_at_the_mount_point(tmp_path: Path) -> None:
    mount = "32 31 0:29 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 ro"
    files = {"proc/self/mountinfo": mount, "sys/fs/cgroup/cpu.max": "200000 100000"}
    for group in ("0::/docker/abc", "0::/../elsewhere"):
        host = make_host(tmp_path, files | {"proc/self/cgroup": group})
        assert cpu_quota(host) == 2.0, group


def test_groups_lead_from_the_own_one_upwards_through_both_versions(tmp_path: Path) -> None:
    memory, unified = "sys/fs/cgroup/memory", "sys/fs/cgroup/unified"
    host = make_host(tmp_path, V1 | {f"{memory}/job/x": "", f"{unified}/x": ""})
    assert groups("memory", host) == [host / memory / "job", host / memory, host / unified]


def test_a_host_without_control_groups_limits_nothing(tmp_path: Path) -> None:
    assert groups("cpu", tmp_path) == []
    assert usable_cpus(tmp_path, EIGHT) == tuple(EIGHT)


def test_lists_of_the_kernel() -> None:
    assert [*numbers("0-2,5,8-9\n")] == [0, 1, 2, 5, 8, 9]
    assert [*numbers("\n")] == []


TWO_NODES = {
    "sys/devices/system/node/node0/cpulist": "0-1,4-5",
    "sys/devices/system/node/node1/cpulist": "2-3,6-7",
    "sys/devices/system/node/nodeless": "",
    "sys/devices/system/node/has_memory": "0-1",
    "proc/self/status": "Name:\tx\nMems_allowed:\t3\nMems_allowed_list:\t0-1",
}


def test_each_cpu_has_its_node(tmp_path: Path) -> None:
    nodes = numa_nodes(make_host(tmp_path, TWO_NODES))
    assert nodes == {0: 0, 1: 0, 4: 0, 5: 0, 2: 1, 3: 1, 6: 1, 7: 1}


def test_slots_name_their_node_where_there_is_a_choice(tmp_path: Path) -> None:
    host = make_host(tmp_path, TWO_NODES)
    assert host_slots(host, {1, 2}) == (Slot(1, 0), Slot(2, 1))


@pytest.mark.parametrize(
    "change",
    [
        {"proc/self/status": "Mems_allowed_list:\t1"},
        {"sys/devices/system/node/has_memory": "1"},
    ],
)
def test_memory_is_never_bound_to_a_node_that_gives_none(
    tmp_path: Path, change: dict[str, str]
) -> None:
    host = make_host(tmp_path, TWO_NODES | change)
    assert memory_nodes(host) == {1}
    assert host_slots(host, {1, 2}) == (Slot(1), Slot(2))


def test_a_host_without_nodes_has_slots_without(tmp_path: Path) -> None:
    assert numa_nodes(tmp_path) == {}
    assert host_slots(tmp_path, {0, 1}) == (Slot(0), Slot(1))


def test_every_cpu_of_this_host_gets_a_slot() -> None:
    assert tuple(slot.cpu for slot in host_slots()) == usable_cpus()
