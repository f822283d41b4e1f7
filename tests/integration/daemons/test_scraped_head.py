"""A real Prometheus scrapes a real head: its nodes, its runs, and that it is away for a while."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from prometheus import program, scraping
from real_cluster import Cluster

pytestmark = [pytest.mark.long, pytest.mark.processes]


def test_nodes_and_runs_of_a_head_are_scraped_also_once_it_is_back(
    cluster: Cluster, tmp_path: Path
) -> None:
    program("prometheus")
    cluster.start_worker("w1", "--slots", "2")
    cluster.alive("w1")
    cluster.submit("ppo", "--env", "CartPole-v1", "--actors", "1", "--total-steps", 10**8)
    (run,) = cluster.until(lambda: cluster.status()[1])
    serving = cluster.start(
        "metrics", "metrics", *cluster.towards_head, "--listen", "127.0.0.1:0", "--json"
    )
    cluster.until(lambda: serving.out.endswith("\n"))
    target = json.loads(serving.out)["address"].removeprefix("http://").removesuffix("/metrics")
    with scraping(target, tmp_path) as prometheus:
        prometheus.until('artos_node_up{node="w1"} == 1')
        prometheus.until(f'artos_run_state{{run="{run}", state="running"}} == 1')
        prometheus.until(f'rate(artos_run_steps_total{{run="{run}"}}[10s]) > 0')
        prometheus.until(f'artos_run_node_actors{{run="{run}", node="w1"}} == 1')
        cluster.head.kill()
        prometheus.until("up == 0")
        cluster.start_head()
        prometheus.until('up == 1 and on() artos_node_up{node="w1"} == 1')
