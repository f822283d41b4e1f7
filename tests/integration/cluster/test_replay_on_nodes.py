"""Replay as a trigger where actors are on other nodes: the ratio holds there, too."""

from __future__ import annotations

import pytest
from clusters import Cluster

from head.records.progress_log import read_history

pytestmark = [pytest.mark.processes, pytest.mark.long]


def test_every_row_is_drawn_as_often_as_the_trigger_says(cluster: Cluster) -> None:
    cluster.begin("replaying.py:replayed", total_steps=6_000)
    for node in ("w1", "w2"):
        cluster.open(node)
    cluster.place({0: "w1", 1: "w2"})
    summary = cluster.finish()
    assert summary["outcome"] == "done"
    wanted, slack = 8 * (summary["steps"] - 1_000), 8 * 20 * 2 + 64
    assert summary["updates"] * 64 == pytest.approx(wanted, abs=slack)
    assert summary["rows_lost"] == summary["restarts"] == 0


def test_exactly_so_many_updates_are_made_and_no_row_is_too_old(cluster: Cluster) -> None:
    cluster.begin("replaying.py:replayed", total_steps=0, total_updates=60, max_lag=1)
    for node in ("w1", "w2"):
        cluster.open(node)
    cluster.place({0: "w1", 1: "w2"})
    summary = cluster.finish()
    assert (summary["outcome"], summary["ended_by"]) == ("done", "total_updates")
    assert summary["updates"] == 60
    assert summary["lag_max"] <= 1
    assert summary["rows_stale"] > 0
    assert summary["rows_lost"] == summary["restarts"] == 0


@pytest.mark.parametrize("env", [pytest.param("single", marks=pytest.mark.exhaustive), "deadly"])
def test_every_drawn_row_is_what_happened(cluster: Cluster, env: str) -> None:
    """Also if an actor is killed in mid-episode, and goes on with another one."""
    cluster.begin("checked_replay.py:checked", env=f"checked_replay:{env}", pattern="prioritised")
    for node in ("w1", "w2"):
        cluster.open(node)
    cluster.place({0: "w1", 1: "w2"})
    summary = cluster.finish()
    assert summary["outcome"] == "done"
    assert summary["restarts"] == {"single": 0, "deadly": 1}[env]
    last = read_history(cluster.run_folder / "progress.csv")[-1]
    assert float(last["metrics/wrong"]) == 0
    assert float(last["metrics/checked"]) == summary["updates"] * 64
    assert float(last["metrics/bootstrapped"]) > 0
