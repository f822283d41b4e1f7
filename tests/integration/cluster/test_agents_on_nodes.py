"""Agents of two policies, each with a learner of its own, where their actors are on other nodes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from clusters import Cluster
from helpers import ROOT

pytestmark = [pytest.mark.processes, pytest.mark.long]

RUNS = Path(__file__).parents[1] / "runs"
GAMES = ROOT / "tests" / "artos" / "envs" / "games_for_tests.py"
GUESSERS, LEARNERS, NODES = "guessers.py:workload", ("middle", "others"), {0: "w1", 1: "w2"}


def done(cluster: Cluster, *learners: str) -> dict[str, int]:
    by = [line["by"] for line in cluster.journal() if "done" in line]
    return {name: by.count(name) for name in learners or LEARNERS}


def test_learners_and_a_node_are_killed_and_all_is_resumed(cluster: Cluster, code: Path) -> None:
    """Learners fail if a row is not of their agents, or of a version that they never made.

    No row is older than the weights of either: rounds begin once both are on a node.
    """
    shutil.copy(RUNS / "guessers.py", code)
    shutil.copy(GAMES, code / "guessing.py")
    cluster.begin(GUESSERS, total_steps=1_000_000)
    for node in NODES.values():
        cluster.open(node)
    cluster.place(NODES)
    cluster.until(lambda: min(done(cluster).values()) > 4)
    for name in LEARNERS:
        before = done(cluster)
        cluster.kill_learner(name)
        cluster.until(lambda before=before: all(n > before[e] for e, n in done(cluster).items()))  # type: ignore[misc]
    before = done(cluster)
    cluster.kill_node("w2")
    cluster.place({0: "w1", 1: "w1"}, "w2", why="it is gone")
    cluster.until(lambda: all(n > before[e] + 2 for e, n in done(cluster).items()))
    cluster.stop()
    summary = cluster.finish()
    assert cluster.statuses() == {"w1": 0, "run": 130}, cluster.said()
    assert "AssertionError" not in cluster.said()
    assert (summary["lag_max"], summary["learners"]["others.lag_max"]) == (0, 0)
    saved = json.loads((cluster.run_folder / "checkpoint" / "manifest.json").read_text())
    assert saved["learners"]["others"]["version"] == saved["learners"]["others"]["updates"]

    cluster.begin(GUESSERS, resume=True, total_steps=saved["steps"] + 960)
    for node in NODES.values():
        cluster.open(node)
    cluster.place(NODES)
    again = cluster.finish()
    assert (again["outcome"], again["restarts"]) == ("done", 0), cluster.said()
    assert again["learners"]["others.version"] > saved["learners"]["others"]["version"]
    assert "Traceback" not in cluster.said()
    assert cluster.survivors() == []


@pytest.mark.parametrize(
    "middle", [pytest.param("draws", marks=pytest.mark.exhaustive), "episodes"]
)
def test_each_policy_has_its_rows_in_its_own_way(middle: str, cluster: Cluster, code: Path) -> None:
    """Drawn from replay or as whole episodes, also where a learner and an actor are killed.

    Learners check each row. What an actor had begun when it was killed is no whole episode.
    """
    for name in ("guessers.py", "drawers.py"):
        shutil.copy(RUNS / name, code)
    shutil.copy(GAMES, code / "guessing.py")
    cluster.begin("drawers.py:workload", middle=middle, total_steps=1_000_000)
    for node in NODES.values():
        cluster.open(node)
    cluster.place(NODES)
    cluster.until(lambda: min(done(cluster).values()) > 4)
    cluster.kill_learner("others")
    actor = cluster.member(cluster.executors["w2"], "actor-1.log")
    assert actor is not None
    actor.kill()
    before = done(cluster)
    cluster.until(lambda: all(n > before[e] + 4 for e, n in done(cluster).items()))
    cluster.stop()
    summary = cluster.finish()
    assert cluster.statuses() == {"w1": 0, "w2": 0, "run": 130}, cluster.said()
    assert "AssertionError" not in cluster.said()
    assert summary["restarts"] == 2
    assert cluster.survivors() == []


def test_past_versions_are_played_on_every_node(cluster: Cluster, code: Path) -> None:
    """Actors fail if one is not there, or has the weights of another; all is resumed, too."""
    shutil.copy(RUNS / "duelists.py", code)
    shutil.copy(GAMES, code / "guessing.py")
    cluster.begin("duelists.py:workload", total_steps=1_000_000)
    for node in NODES.values():
        cluster.open(node)
    cluster.place(NODES)
    cluster.until(lambda: done(cluster, "self")["self"] > 8)
    actor = cluster.member(cluster.executors["w2"], "actor-1.log")
    assert actor is not None
    actor.kill()
    cluster.kill_learner("rival")
    both, before = ("self", "rival"), done(cluster, "self", "rival")
    cluster.until(lambda: all(n > before[e] + 4 for e, n in done(cluster, *both).items()))
    before = done(cluster, *both)
    cluster.kill_node("w1")
    cluster.place({0: "w2", 1: "w2"}, "w1", why="it is gone")
    cluster.until(lambda: all(n > before[e] + 4 for e, n in done(cluster, *both).items()))
    cluster.stop()
    summary = cluster.finish()
    assert cluster.statuses() == {"w2": 0, "run": 130}, cluster.said()
    assert "AssertionError" not in cluster.said()
    assert summary["restarts"] == 3
    saved = json.loads((cluster.run_folder / "checkpoint" / "manifest.json").read_text())

    cluster.begin("duelists.py:workload", resume=True, total_steps=saved["steps"] + 960)
    for node in NODES.values():
        cluster.open(node)
    cluster.place(NODES)
    again = cluster.finish()
    assert (again["outcome"], again["restarts"]) == ("done", 0), cluster.said()
    assert again["version"] > saved["version"]
    assert again["learners"]["rival.version"] > saved["learners"]["rival"]["version"]
    assert "Traceback" not in cluster.said()
    assert cluster.survivors() == []
