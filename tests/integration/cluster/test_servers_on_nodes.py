"""Roles that answer, where actors are on other nodes: a server of its own beside those of each."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from books import book_of
from clusters import Cluster
from elastic import needs_criu
from test_moving import moved

from artos.system.signals import CLOSE
from deploy.why.report import report

pytestmark = [pytest.mark.processes, pytest.mark.long]

ASKING, GRADED = "asking.py:workload", "graded.py:workload"
NODES = {0: "w1", 1: "w2"}


def begin(cluster: Cluster, workload: str = ASKING, **settings: Any) -> None:
    cluster.begin(workload, **settings)
    for node in NODES.values():
        cluster.open(node)
    cluster.place(NODES)


def kill_server(cluster: Cluster, node: str, name: str = "inference") -> None:
    server = cluster.member(cluster.executors[node], f"{name}.log")
    assert server is not None, cluster.said()
    server.kill()


def graded(cluster: Cluster) -> int:
    return sum(line.get("by") == "grader" for line in cluster.journal())


def assert_each_row_once(cluster: Cluster) -> None:
    book = book_of(cluster.run_folder)
    for actor in NODES:
        steps = book[book[:, 0] == actor][:, 1]
        np.testing.assert_array_equal(steps, np.arange(len(steps)))


def test_whoever_is_killed_each_row_is_answered_as_it_says(cluster: Cluster) -> None:
    """Servers, a learner, a node with its server; then the run goes on from its checkpoint."""
    with cluster.slowly():
        begin(cluster, total_steps=100_000)
        cluster.until_update(5)
        for node in ("w1", "w2", "w1"):
            kill_server(cluster, node)
            cluster.until_update(cluster.updates() + 5)
        cluster.kill_learner()
        cluster.until_update(cluster.updates() + 5)
        cluster.kill_node("w2")
        cluster.place({0: "w1", 1: "w1"}, "w2", why="it was silent for 15 s")
        cluster.until_update(cluster.updates() + 10)
        cluster.stop()
        summary = cluster.finish()
    died = [line["died"] for line in cluster.journal() if "died" in line]
    assert died.count("inference") == 3, died
    askers = [line["asked_by"] for line in cluster.journal() if line.get("died") == "inference"]
    assert askers == [[0], [1], [0]]
    waits = [
        kinds.get("wait: restart", 0.0) for kinds in report(cluster.run_folder).shares.values()
    ]
    assert waits.count(0.0) < len(waits)
    assert "learner" in died
    assert summary["restarts"] == len(died) == 5
    assert cluster.statuses() == {"w1": 0, "run": 130}, cluster.said()
    assert "AssertionError" not in cluster.said()
    assert (cluster.run_folder / "logs" / "w1" / "inference.log").exists()
    assert_each_row_once(cluster)
    steps = json.loads((cluster.run_folder / "checkpoint" / "manifest.json").read_text())["steps"]

    cluster.begin(ASKING, resume=True, total_steps=steps + 640)
    cluster.open("w1")
    cluster.place({0: "w1", 1: "w1"})
    again = cluster.finish()
    assert (again["outcome"], again["restarts"]) == ("done", 0), cluster.said()
    assert cluster.survivors() == []


def test_servers_of_other_weights_and_of_none_are_killed_on_both_nodes(cluster: Cluster) -> None:
    """Actors fail where an answer is not by the version of the grader that it says."""
    victims = [(node, name) for name in ("marks", "judge") for node in NODES.values()]
    with cluster.slowly():
        begin(cluster, GRADED, total_steps=100_000)
        cluster.until_update(5)
        for node, name in victims:
            kill_server(cluster, node, name)
            cluster.until_update(cluster.updates() + 5)
        before = graded(cluster)
        cluster.kill_learner("grader")
        cluster.until(lambda: graded(cluster) > before + 1)
        cluster.stop()
        summary = cluster.finish()
    died = [line["died"] for line in cluster.journal() if "died" in line]
    assert sorted(died) == ["grader", "judge", "judge", "marks", "marks"]
    assert summary["restarts"] == len(died)
    assert cluster.statuses() == {"w1": 0, "w2": 0, "run": 130}, cluster.said()
    assert "AssertionError" not in cluster.said()
    assert_each_row_once(cluster)
    saved = json.loads((cluster.run_folder / "checkpoint" / "manifest.json").read_text())

    begin(cluster, GRADED, resume=True, total_steps=saved["steps"] + 640)
    again = cluster.finish()
    assert (again["outcome"], again["restarts"]) == ("done", 0), cluster.said()
    assert again["learners"]["grader.version"] > saved["learners"]["grader"]["version"] > 0
    assert "AssertionError" not in cluster.said()
    assert cluster.survivors() == []


@needs_criu
def test_an_actor_that_moves_asks_the_server_of_its_new_node(cluster: Cluster) -> None:
    """It goes on in mid-episode, between two requests; its old node and its server are closed."""
    with cluster.slowly():
        begin(cluster, total_steps=2_400)
        cluster.until_update(3)
        cluster.place({0: "w1", 1: "w1"}, why="w2 is drained")
        cluster.until(lambda: moved(cluster))
        cluster.executors["w2"].send_signal(CLOSE)
    summary = cluster.finish()
    assert moved(cluster) == [("actor 1", "w2", "w1")]
    assert (summary["outcome"], summary["restarts"], summary["rows_lost"]) == ("done", 0, 0)
    assert set(cluster.statuses().values()) == {0}, cluster.said()
    assert_each_row_once(cluster)
    assert cluster.survivors() == []


FAILING = """
from dataclasses import replace

from asking import Inference
from asking import workload as asking


class Failing(Inference):
    def answer(self, asked):
        raise ValueError("of no opinion")


def workload(total_steps: int = 1024):
    base = asking(total_steps=total_steps)
    base.actor._server = Failing()
    return base
"""


def test_a_run_ends_with_the_word_of_a_server_that_fails(cluster: Cluster) -> None:
    (cluster.code / "failing.py").write_text(FAILING)
    cluster.begin("failing.py:workload")
    for node in NODES.values():
        cluster.open(node)
    cluster.place(NODES)
    summary = cluster.finish()
    assert summary["outcome"] == "failed"
    said = cluster.log("run").read_text()
    assert re.search(r"inference failed .*\n?on node w\d: .*\n(.*\n)*.*of no opinion", said), said
    assert cluster.survivors() == []
