"""Data sets on a cluster: they are read where the learner is, and actors need not be there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from clusters import Cluster
from helpers import ROOT
from shown import demonstrate

pytestmark = [pytest.mark.processes, pytest.mark.long]


@pytest.fixture
def shown(code: Path) -> None:
    for name in ("my_dqn.py", "my_demos.py"):
        shutil.copy(ROOT / "docs" / "examples" / name, code)
    demonstrate(code / "demos.npz", episodes=2)


@pytest.mark.usefixtures("shown")
def test_live_rows_of_nodes_are_mixed_with_data(cluster: Cluster) -> None:
    cluster.begin("my_demos.py:workload", total_steps=3_000, actors=2)
    for node in ("w1", "w2"):
        cluster.open(node)
    cluster.place({0: "w1", 1: "w2"})
    cluster.until_update(100)
    cluster.kill_learner()
    summary = cluster.finish()
    assert summary["outcome"] == "done", cluster.said()
    wanted, slack = 8 * (summary["steps"] - 500) / 32, 2 * (8 * 32 * 2 + 32) / 32
    assert summary["updates"] == pytest.approx(wanted, abs=slack)
    assert summary["rows_lost"] == 0
    assert cluster.survivors() == []


@pytest.mark.usefixtures("shown")
def test_a_run_without_actors_needs_no_node(cluster: Cluster) -> None:
    cluster.begin("my_demos.py:workload", actors=0, total_updates=150)
    summary = cluster.finish()
    assert (summary["outcome"], summary["ended_by"]) == ("done", "total_updates"), cluster.said()
    assert (summary["updates"], summary["steps"], summary["nodes"]) == (150, 0, [])
    assert cluster.survivors() == []
