"""Daemons lend devices to learners; of a daemon that is killed the pool keeps nothing."""

from __future__ import annotations

import json

import pytest
from real_cluster import Cluster

from artos.pool.folder import pool_folder
from artos.pool.view import read_pool

pytestmark = pytest.mark.processes


def lent() -> list[str]:
    return [each.name for each in read_pool().resources if each.kind == "device"]


@pytest.mark.long
@pytest.mark.parametrize(
    "device", ["pool", pytest.param("learner=pool", marks=pytest.mark.exhaustive)]
)
def test_a_run_on_devices_that_a_daemon_lends(device: str, cluster: Cluster) -> None:
    worker = cluster.start_worker("w1", "--devices", "cpu:a,cpu:b")
    cluster.alive("w1")
    assert lent() == ["cpu:a", "cpu:b"]
    learning = ("ppo", "--device", device, "--weight", 2, "--total-updates", 3, "--json")
    submit = cluster.submit(*learning)
    assert submit.wait() == 0, cluster.story()
    found = json.loads(submit.out)
    assert found["device"] == found["devices"]["learner"]["device"] == "cpu:a"
    worker.kill()  # the last one there
    assert lent() == []
    assert not pool_folder().exists()


def test_devices_that_are_none_are_refused_at_the_door(cluster: Cluster) -> None:
    said = cluster.refused("worker", "--name", "w1", "--devices", "cpu:a,gpu,cpu:a")
    assert "unknown device 'gpu'" in said
    assert "device 'cpu:a' is listed 2 times" in said
    assert not pool_folder().exists()
