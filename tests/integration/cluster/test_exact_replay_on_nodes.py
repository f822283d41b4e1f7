"""Asynchronous runs on nodes that were lost come out bit for bit once more, in one process."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from clusters import Cluster
from elastic import needs_criu
from helpers import ROOT
from served_guesses import GUESSING

from artos.errors import Refused
from artos.runs.answers import files
from artos.runs.tape import tapes
from deploy.replay.opening import replayed

pytestmark = [pytest.mark.processes, pytest.mark.long]


def begin(cluster: Cluster, workload: str, *, criu: bool = True, **settings: Any) -> None:
    cluster.begin(workload, **settings)
    for node in ("w1", "w2"):
        cluster.open(node, criu=criu)
    cluster.place({0: "w1", 1: "w2"})


def assert_exact(cluster: Cluster, summary: dict[str, Any], outcome: str = "done") -> None:
    assert summary["outcome"] == outcome
    found = replayed(cluster.run_folder, trust=True)
    assert (found.first_difference, found.ended) == (None, "")
    assert found.versions == summary["version"] + 1


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


def test_pictures_that_came_from_nodes(cluster: Cluster) -> None:
    """Each has a sum of its own, also of those that came from a node before it was lost."""
    small = {"envs": 1, "steps": 16, "minibatches": 1, "epochs": 1, "max_lag": 1, "actors": 2}
    with cluster.slowly():
        begin(cluster, "ppo", env="late:Pictures", **small, total_steps=320)
        cluster.until_update(4)
        cluster.kill_node("w2")
        cluster.place({0: "w1", 1: "w1"}, "w2", why="it was silent for 15 s")
    assert_exact(cluster, cluster.finish())
    summed = [each for each in cluster.journal() if each.get("large")]
    assert {each["by"] for each in summed} == {"actor 0", "actor 1"}
    journal = cluster.run_folder / "journal.jsonl"
    other = json.dumps(summed[0]["large"]).replace(summed[0]["large"][:2], "zz")
    journal.write_text(journal.read_text().replace(json.dumps(summed[0]["large"]), other))
    found = replayed(cluster.run_folder, trust=True).first_difference
    assert found is not None
    assert found.what == "wrote other rows"


@pytest.mark.parametrize("by", [pytest.param("moved", marks=needs_criu), "state"])
def test_an_actor_that_went_on_elsewhere(by: str, cluster: Cluster) -> None:
    """By its image, or by what it held where there is no CRIU."""
    with cluster.slowly():
        begin(cluster, "journey.py:workload", criu=by == "moved", total_steps=2_400)
        cluster.until_update(3)
        cluster.place({0: "w1", 1: "w1"}, why="w2 is drained")
        cluster.until(lambda: any(each.get("start") == by for each in cluster.journal()))
    assert_exact(cluster, cluster.finish())


@pytest.mark.parametrize("workload", ["ppo", "dqn"])
def test_actors_that_came_and_went_by_hand_on_nodes_of_which_one_was_lost(
    workload: str, cluster: Cluster
) -> None:
    own: dict[str, Any] = (
        {"steps": 32, "minibatches": 1, "max_lag": 1} if workload == "ppo" else {"after": 100}
    )
    cluster.begin(workload, actors="1..3", total_steps=10**9, envs=2, **own)
    for node in ("w1", "w2"):
        cluster.open(node)
    cluster.place({0: "w1", 1: "w2", 2: "w2"})
    cluster.until_update(1)
    for actors in (3, 1, 2, 3):
        cluster.until_update(cluster.updates() + 4)
        assert cluster.scale(actors).fault == ""
    cluster.kill_node("w2")
    cluster.place({0: "w1", 1: "w1", 2: "w1"}, "w2", why="it was silent for 15 s")
    cluster.until_update(cluster.updates() + 4)
    assert cluster.scale(2).fault == ""
    cluster.until_update(cluster.updates() + 4)
    cluster.stop()
    summary = cluster.finish()
    assert {actors for _, actors in summary["actors_by_update"]} == {1, 2, 3}
    assert_exact(cluster, summary, "interrupted")


def test_members_went_on_with_what_they_held_on_other_nodes(cluster: Cluster) -> None:
    """In a run that was stopped, and resumed with all of it; then a node was killed."""
    with cluster.slowly():
        begin(cluster, "counting.py:workload", total_steps=2_400, checkpoint="all")
        cluster.until_update(8)
        cluster.stop()
        assert cluster.finish()["outcome"] == "interrupted"
    cluster.executors.clear()
    with cluster.slowly():
        cluster.begin("counting.py:workload", resume=True, total_steps=2_400)
        for node in ("w1", "w3"):
            cluster.open(node)
        cluster.place({0: "w3", 1: "w1"})
        cluster.until_update(16)
        cluster.kill_node("w3")
        cluster.place({0: "w1", 1: "w1"}, "w3", why="it was silent for 15 s")
    summary = cluster.finish()
    assert summary["outcome"] == "done"
    (resumed,) = json.loads((cluster.run_folder / "config.json").read_text())["resumed"]
    assert len(resumed["holding"]) == 3
    assert_exact(cluster, summary)


def test_rounds_that_end_early_on_a_node_that_is_lost(cluster: Cluster, code: Path) -> None:
    """It is replayed, or refused if several were under way there of which rows came, not ends."""
    shutil.copy(ROOT / "docs" / "examples" / "my_es.py", code)
    with cluster.slowly():
        begin(cluster, "my_es.py:workload", total_steps=0, total_updates=10**6, envs=4)
        cluster.until_update(5)
        actor = cluster.member(cluster.executors["w1"], "actor-0.log")
        assert actor is not None
        actor.kill()
        cluster.until_update(cluster.updates() + 5)
        cluster.kill_node("w2")
        cluster.place({0: "w1", 1: "w1"}, "w2", why="it was silent for 15 s")
        cluster.until_update(cluster.updates() + 5)
        cluster.stop()
    summary = cluster.finish()
    try:
        assert_exact(cluster, summary, "interrupted")
    except Refused as refused:
        assert "only the node knew where they ended" in str(refused)  # noqa: PT017  # either is right


def ask(cluster: Cluster, workload: str, *, criu: bool = True, **settings: Any) -> None:
    """Begin with actors that ask a server on their node at each step."""
    central = {"inference": "central", "splits": 2, "envs": 2, "total_steps": 10**9}
    begin(cluster, workload, criu=criu, **central, **settings)
    cluster.until_update(4)


def go_on(cluster: Cluster) -> None:
    cluster.until_update(cluster.updates() + 4)


def test_what_was_answered_on_a_node_outlives_it(cluster: Cluster) -> None:
    """The replay process, an agent, a server and the learner are killed, too."""
    ask(cluster, "ppo", env="CartPole-v1", actors=2, steps=32, minibatches=1, max_lag=1)
    cluster.kill_learner()
    go_on(cluster)
    assert cluster.run is not None
    for process, log in (
        (cluster.run, "replay-0.log"),
        (cluster.executors["w1"], "agent.log"),
        (cluster.executors["w1"], "inference.log"),
    ):
        victim = cluster.member(process, log)
        assert victim is not None
        victim.kill()
        go_on(cluster)
    cluster.kill_node("w2")
    cluster.place({0: "w1", 1: "w1"}, "w2", why="it was silent for 15 s")
    go_on(cluster)
    cluster.stop()
    summary = cluster.finish()
    assert len(files(cluster.run_folder, "inference")) == 4, "one says that these are recorded"
    assert_exact(cluster, summary, "interrupted")


@pytest.mark.parametrize("by", [pytest.param("moved", marks=needs_criu), "state"])
def test_an_actor_asks_on_at_another_node(by: str, cluster: Cluster) -> None:
    """It goes there and back: no two of its requests have the same number."""
    ask(
        cluster, "dqn", criu=by == "moved", actors=2, ratio=4, hidden=[32], after=100, spread=7
    )  # fmt: skip
    for places in ({0: "w1", 1: "w1"}, {0: "w1", 1: "w2"}):
        before = sum(each.get("start") == by for each in cluster.journal())
        cluster.place(places, why="w2 is drained")
        cluster.until(
            lambda before=before: (
                sum(each.get("start") == by for each in cluster.journal()) > before
            )
        )
        go_on(cluster)
    cluster.stop()
    assert_exact(cluster, cluster.finish(), "interrupted")


def test_a_server_on_a_node_may_draw_at_random(cluster: Cluster, code: Path) -> None:
    """It is killed in mid-run; then the run is stopped, and resumed on another node."""
    shutil.copy(ROOT / "docs" / "examples" / "my_judge.py", code)
    (code / "guessing.py").write_text(GUESSING)
    begin(cluster, "guessing.py:workload", total_steps=10**9)
    cluster.until_update(4)
    judge = cluster.member(cluster.executors["w1"], "judge.log")
    assert judge is not None
    judge.kill()
    go_on(cluster)
    cluster.stop()
    assert cluster.finish()["outcome"] == "interrupted"
    saved = json.loads((cluster.run_folder / "checkpoint" / "manifest.json").read_text())
    cluster.executors.clear()
    cluster.begin("guessing.py:workload", resume=True, total_steps=saved["steps"] + 4_096)
    cluster.open("w3")
    cluster.place({0: "w3", 1: "w3"})
    assert_exact(cluster, cluster.finish())
    for each in files(cluster.run_folder, "judge"):
        each.unlink()
    with pytest.raises(Refused, match="what judge answered was not recorded: an earlier ARTOS"):
        replayed(cluster.run_folder, trust=True)
