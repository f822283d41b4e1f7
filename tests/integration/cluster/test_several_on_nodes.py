"""Several learners by name, where their actors are on other nodes and read weights of two."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from clusters import Cluster
from helpers import SUPPORT

from artos.errors import Refused
from deploy.replay.opening import replayed

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


def test_one_of_them_is_several_processes(cluster: Cluster, code: Path) -> None:
    """Either replica of the model is killed, then a node; the policy has one process throughout."""
    shutil.copy(SUPPORT / "divided_model.py", code)
    cluster.begin("divided_model.py:workload", learners="model=2", total_updates=240, total_steps=0)

    def fits() -> int:
        return sum(line.get("by") == "model" for line in cluster.journal())

    with cluster.slowly():
        for node in NODES.values():
            cluster.open(node)
        cluster.place(NODES)
        for log in ("model-1", "model"):
            before = fits()
            cluster.until(lambda before=before: fits() > before + 2)  # type: ignore[misc]
            cluster.kill_learner(log)
        before = fits()
        cluster.until(lambda: fits() > before + 2)
        cluster.kill_node("w2")
        cluster.place({0: "w1", 1: "w1"}, "w2", why="it was silent for 15 s")
    summary = cluster.finish()
    assert (summary["outcome"], summary["learners"]["model.updates"]) == ("done", fits())
    lines = cluster.journal()
    died = [line["died"] for line in lines if line.get("died", "").startswith(("model", "learner"))]
    assert died == ["model 1", "model"]
    learning = {line["ready"] for line in lines if "ready" in line} - {"actor 0", "actor 1"}
    assert learning == {"learner", "model", "model 1"}
    with pytest.raises(Refused) as refused:
        replayed(cluster.run_folder, trust=True)
    (why,) = refused.value.faults
    assert "of its learners model has replicas" in why
    assert cluster.survivors() == []
