"""Asynchronous runs on nodes that were lost come out bit for bit once more, in one process."""

from __future__ import annotations

from typing import Any

import pytest
from clusters import Cluster
from elastic import needs_criu

from artos.runs.tape import tapes
from deploy.replay.opening import replayed

pytestmark = [pytest.mark.processes, pytest.mark.long]


def begin(cluster: Cluster, workload: str, *, criu: bool = True, **settings: Any) -> None:
    cluster.begin(workload, **settings)
    for node in ("w1", "w2"):
        cluster.open(node, criu=criu)
    cluster.place({0: "w1", 1: "w2"})


def assert_exact(cluster: Cluster, summary: dict[str, Any]) -> None:
    assert summary["outcome"] == "done"
    found = replayed(cluster.run_folder, trust=True)
    assert (found.first_difference, found.ended) == (None, "")
    assert found.versions == summary["updates"] + 1


def test_an_actor_the_learner_and_a_node_are_killed(cluster: Cluster) -> None:
    with cluster.slowly():
        begin(cluster, "counting.py:workload", total_steps=2_400)
        cluster.until_update(5)
        actor = cluster.member(cluster.executors["w1"], "actor-0.log")
        assert actor is not None
        actor.kill()
        cluster.until_update(10)
        cluster.kill_learner()
        cluster.until(lambda: len(tapes(cluster.run_folder, "learner")) == 2)
        cluster.until_update(15)
        cluster.kill_node("w2")
        cluster.place({0: "w1", 1: "w1"}, "w2", why="it was silent for 15 s")
    assert_exact(cluster, cluster.finish())


def test_actors_had_rounded_weights(cluster: Cluster) -> None:
    """Also what they make of the weights as they are is found to be something else."""
    small = {"envs": 1, "steps": 16, "minibatches": 1, "epochs": 1, "max_lag": 1, "actors": 2}
    rounded = {"wire_dtype": "bfloat16", "total_steps": 6_400}
    begin(cluster, "ppo", env="CartPole-v1", **small, **rounded)
    cluster.until_update(5)
    cluster.kill_learner()
    cluster.until_update(20)
    actor = cluster.member(cluster.executors["w1"], "actor-0.log")
    assert actor is not None
    actor.kill()
    assert_exact(cluster, cluster.finish())
    journal = cluster.run_folder / "journal.jsonl"
    journal.write_text(journal.read_text().replace('"sent_as":"bfloat16"', '"sent_as":"float32"'))
    found = replayed(cluster.run_folder, trust=True).first_difference
    assert found is not None
    assert found.what == "wrote other rows"


def test_rows_are_drawn_again_after_a_node_was_lost(cluster: Cluster) -> None:
    begin(cluster, "replaying.py:replayed", total_steps=4_000)
    cluster.until_update(100)
    cluster.kill_node("w2")
    cluster.place({0: "w1", 1: "w1"}, "w2", why="it was silent for 15 s")
    assert_exact(cluster, cluster.finish())


@pytest.mark.parametrize("by", [pytest.param("moved", marks=needs_criu), "state"])
def test_an_actor_that_went_on_elsewhere(by: str, cluster: Cluster) -> None:
    """By its image, or by what it held where there is no CRIU."""
    with cluster.slowly():
        begin(cluster, "journey.py:workload", criu=by == "moved", total_steps=2_400)
        cluster.until_update(3)
        cluster.place({0: "w1", 1: "w1"}, why="w2 is drained")
        cluster.until(lambda: any(each.get("start") == by for each in cluster.journal()))
    assert_exact(cluster, cluster.finish())
