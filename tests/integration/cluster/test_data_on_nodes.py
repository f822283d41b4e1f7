"""Data sets on a cluster: they are read where the learner is, whoever is killed, and once more."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from clusters import Cluster
from helpers import ROOT
from shown import demonstrate

pytestmark = [pytest.mark.processes, pytest.mark.long]

DEMOS = "checked_demos.py:workload"


@pytest.fixture(autouse=True)
def shown(code: Path) -> None:
    for name in ("my_dqn.py", "my_demos.py"):
        shutil.copy(ROOT / "docs" / "examples" / name, code)
    shutil.copy(Path(__file__).with_name("checked_demos.py"), code)
    demonstrate(code / "demos.npz", episodes=2)


def test_live_rows_of_nodes_are_mixed_with_data(cluster: Cluster) -> None:
    """The learner is killed, then a node; the run goes on, then once more from its checkpoint."""
    cluster.begin(DEMOS, total_steps=10**9, actors=2)
    for node in ("w1", "w2"):
        cluster.open(node)
    cluster.place({0: "w1", 1: "w2"})
    cluster.until_update(50)
    cluster.kill_learner()
    cluster.until_update(cluster.updates() + 50)
    cluster.kill_node("w2")
    cluster.place({0: "w1", 1: "w1"}, "w2", why="it was silent for 15 s")
    cluster.until_update(cluster.updates() + 50)
    cluster.stop()
    before = cluster.finish()
    assert (before["outcome"], before["restarts"]) == ("interrupted", 2), cluster.said()

    cluster.begin(DEMOS, resume=True, total_steps=before["steps"] + 1_600, actors=2)
    cluster.open("w1")
    cluster.place({0: "w1", 1: "w1"})
    summary = cluster.finish()
    assert (summary["outcome"], summary["restarts"]) == ("done", 0), cluster.said()
    assert summary["rows_lost"] == 0
    slack = 2 * (8 * 32 * 2 + 32) / 32
    for found in (before, summary):
        wanted = 8 * (found["steps"] - 500) / 32
        assert found["updates"] == pytest.approx(wanted, abs=slack), "live rows pace the draws"
    assert cluster.survivors() == []


def test_a_run_without_actors_needs_no_node(cluster: Cluster) -> None:
    cluster.begin(DEMOS, actors=0, total_updates=10**6)
    cluster.until_update(50)
    cluster.kill_learner()
    cluster.until_update(cluster.updates() + 50)
    cluster.stop()
    before = cluster.finish()
    assert (before["outcome"], before["restarts"]) == ("interrupted", 1), cluster.said()
    cluster.begin(DEMOS, resume=True, actors=0, total_updates=before["updates"] + 50)
    summary = cluster.finish()
    assert (summary["outcome"], summary["ended_by"]) == ("done", "total_updates"), cluster.said()
    found = (summary["updates"], summary["steps"], summary["nodes"], summary["restarts"])
    assert found == (before["updates"] + 50, 0, [], 0)
    assert cluster.survivors() == []
