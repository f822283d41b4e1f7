"""Several learners by name, where their actors are on other nodes and read weights of two."""

from __future__ import annotations

import json

import pytest
from clusters import Cluster

pytestmark = [pytest.mark.processes, pytest.mark.long]

PENNIES, LEARNERS, NODES = "pennies.py:workload", ("even", "odd", "watcher"), {0: "w1", 1: "w2"}


def done(cluster: Cluster) -> dict[str, int]:
    by = [line["by"] for line in cluster.journal() if "done" in line]
    return {name: by.count(name) for name in LEARNERS}


def test_each_is_killed_and_resumed(cluster: Cluster) -> None:
    """Actors fail where what they bind does not belong together, learners where rows do not."""
    cluster.begin(PENNIES, total_updates=100_000)
    for node in NODES.values():
        cluster.open(node)
    cluster.place(NODES)
    cluster.until(lambda: min(done(cluster).values()) > 2)
    for name in LEARNERS[:2]:
        before = done(cluster)
        cluster.kill_learner(name)
        cluster.until(lambda before=before: all(n > before[e] for e, n in done(cluster).items()))  # type: ignore[misc]
    cluster.stop()
    summary = cluster.finish()
    assert summary["restarts"] == 2, cluster.said()
    assert cluster.statuses() == {"w1": 0, "w2": 0, "run": 130}, cluster.said()
    assert "Traceback" not in cluster.said()
    manifest = json.loads((cluster.run_folder / "checkpoint" / "manifest.json").read_text())
    assert manifest["learners"]["odd"]["version"] == manifest["learners"]["odd"]["updates"]

    cluster.begin(PENNIES, resume=True, total_updates=manifest["updates"] + 5)
    for node in NODES.values():
        cluster.open(node)
    cluster.place(NODES)
    again = cluster.finish()
    assert (again["outcome"], again["restarts"]) == ("done", 0), cluster.said()
    assert again["learners"]["odd.version"] >= manifest["learners"]["odd"]["version"] + 4
    assert "Traceback" not in cluster.said()
    assert cluster.survivors() == []
