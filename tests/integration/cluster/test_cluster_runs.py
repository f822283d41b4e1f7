"""Runs on a cluster: learning, exact budgets, deaths of all kinds, moves; real processes."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from books import assert_each_row_once, places
from clusters import Cluster
from helpers import unrolled

from artos.protocol import steering
from artos.system.signals import CLOSE

pytestmark = pytest.mark.processes

COUNTING, STAGED = "counting.py:workload", "staged.py:workload"
ROWS = 2400
SITE_UP = steering.ExecutorUp("w1", 1, 2)


def spread(actors: int, *nodes: str) -> dict[int, str]:
    return {actor: nodes[actor % len(nodes)] for actor in range(actors)}


def begin_counting(
    cluster: Cluster, *nodes: str, workload: str = COUNTING, rows: int = ROWS, **settings: int
) -> None:
    cluster.begin(workload, total_steps=rows, **settings)
    for node in nodes:
        cluster.open(node)
    cluster.place(spread(2, *nodes))


def assert_all_there(cluster: Cluster, summary: dict[str, Any], rows: int = ROWS) -> None:
    assert summary["outcome"] == "done"
    assert summary["steps"] == rows
    assert summary["lag_max"] <= 1
    assert set(cluster.statuses().values()) == {0}, cluster.said()
    assert_each_row_once(cluster.run_folder, rows, 2)
    assert cluster.survivors() == []


@pytest.mark.long
def test_two_executors_of_two_actors_learn_cartpole(cluster: Cluster) -> None:
    cluster.begin("ppo", actors=4, total_steps=40_960, envs=4)
    cluster.open("w1")
    cluster.open("w2")
    cluster.place(spread(4, "w1", "w2"))
    summary = cluster.finish()
    assert cluster.statuses() == {"run": 0, "w1": 0, "w2": 0}, cluster.said()
    assert (summary["steps"], summary["rows_lost"], summary["restarts"]) == (40_960, 0, 0)
    assert summary["mean_return_100"] > 60, "a random policy gets 22"
    assert summary["nodes"] == ["w1", "w2"]
    assert summary["usage"]["bytes_moved"] > 40_960 * 4 * 4, "observations alone take more"
    assert cluster.news[-1].state == "done"
    assert cluster.survivors() == []


@pytest.mark.long
def test_versions_are_evaluated_beside_the_run_process(cluster: Cluster) -> None:
    small = {"actors": 2, "envs": 1, "steps": 16, "minibatches": 1, "epochs": 1}
    cluster.begin("ppo", **small, total_steps=320, evaluate_every=5, evaluation_episodes=3)
    cluster.open("w1")
    cluster.place(spread(2, "w1"))
    summary = cluster.finish()
    assert cluster.statuses() == {"run": 0, "w1": 0}, cluster.said()
    found = [each["version"] for each in summary["evaluation"]]
    assert (found[0], found[-1]) == (0, 10)
    assert len(found) + summary["evaluations_skipped"] == 3
    assert (summary["steps"], summary["restarts"], summary["evaluations_failed"]) == (320, 0, "")
    assert cluster.survivors() == []


def test_an_actor_is_killed(cluster: Cluster) -> None:
    with cluster.slowly():
        begin_counting(cluster, "w1", "w2")
        cluster.until_update(5)
        actor = cluster.member(cluster.executors["w2"], "actor-1.log")
        assert actor is not None
        actor.kill()
    summary = cluster.finish()
    assert summary["restarts"] == 1
    assert summary["rows_lost"] == 0
    assert_all_there(cluster, summary)
    assert len(places(cluster.run_folder, 1)) == 2


@pytest.mark.long
def test_the_learner_is_killed(cluster: Cluster) -> None:
    with cluster.slowly():
        begin_counting(cluster, "w1", "w2")
        cluster.until_update(5)
        cluster.kill_learner()
    summary = cluster.finish()
    assert summary["restarts"] == 1
    assert_all_there(cluster, summary)


@pytest.mark.long
def test_replay_buffer_and_agent_are_killed(cluster: Cluster) -> None:
    with cluster.slowly():
        begin_counting(cluster, "w1", "w2")
        cluster.until_update(5)
        assert cluster.run is not None
        replay = cluster.member(cluster.run, "replay-0.log")
        agent = cluster.member(cluster.executors["w1"], "agent.log")
        assert replay is not None
        assert agent is not None
        replay.kill()
        cluster.until_update(15)
        agent.kill()
    summary = cluster.finish()
    assert (summary["restarts"], summary["rows_lost"]) == (0, 0)
    assert_all_there(cluster, summary)


@pytest.mark.long
def test_a_node_is_killed_and_its_actors_go_on_elsewhere(cluster: Cluster) -> None:
    with cluster.slowly():
        begin_counting(cluster, "w1", "w2")
        cluster.until_update(5)
        cluster.kill_node("w2")
    cluster.place(spread(2, "w1"), "w2", why="it was silent for 15 s")
    summary = cluster.finish()
    lost = [line for line in cluster.journal() if "lost" in line]
    assert all(line["node"] == "w2" and line["actor"] == 1 for line in lost)
    assert summary["rows_lost"] == sum(line["lost"] for line in lost)
    assert summary["nodes"] == ["w1", "w2"]
    assert_all_there(cluster, summary)
    assert len(places(cluster.run_folder, 1)) == 2
    assert len(places(cluster.run_folder, 0)) == 1
    logs = cluster.run_folder / "logs"
    assert {file.name for file in (logs / "w1").iterdir()} >= {"agent.log", "actor-0.log"}
    (missing,) = (logs / "w2").iterdir()
    assert "node w2 are missing here: it was silent for 15 s" in missing.read_text()


@pytest.mark.long
def test_an_executor_is_killed_and_another_one_opened_on_the_same_node(cluster: Cluster) -> None:
    with cluster.slowly():
        begin_counting(cluster, "w1", "w2")
        cluster.until_update(5)
        cluster.kill_node("w2")
    cluster.open("w2")
    summary = cluster.finish()
    assert_all_there(cluster, summary)
    assert len(places(cluster.run_folder, 1)) == 2


@pytest.mark.long
def test_an_executor_is_killed_and_its_agent_still_ships_everything(cluster: Cluster) -> None:
    with cluster.slowly():
        begin_counting(cluster, "w1", "w2")
        cluster.until_update(5)
        executor, memory = cluster.executors.pop("w2"), cluster.memory_of("w2")
        executor.kill()
        executor.wait()
        cluster.until(lambda: not memory.exists())
    cluster.place(spread(2, "w1"), "w2", why="its executor died and could not be opened again")
    summary = cluster.finish()
    assert summary["rows_lost"] == 0
    assert_all_there(cluster, summary)
    assert len(places(cluster.run_folder, 1)) == 2


@pytest.mark.long
@pytest.mark.parametrize("chunk", [16, 4])
def test_keys_that_travel_in_stages(cluster: Cluster, chunk: int) -> None:
    with cluster.slowly():
        begin_counting(cluster, "w1", "w2", workload=STAGED, chunk=chunk)
        cluster.until_update(5)
        cluster.kill_node("w2")
        cluster.place(spread(2, "w1"), "w2")
        cluster.until_update(15)
        cluster.kill_learner()
    assert_all_there(cluster, cluster.finish())


@pytest.mark.long
@pytest.mark.parametrize(
    "pipeline", [pytest.param("dual+minibatch", marks=pytest.mark.exhaustive), "full"]
)
def test_pipelines_of_ppo_keep_the_budget(cluster: Cluster, pipeline: str) -> None:
    small = {"envs": 2, "steps": 32, "minibatches": 1}
    cluster.begin("ppo", actors=2, total_steps=2560, pipeline=pipeline, **small)
    for node in ("w1", "w2"):
        cluster.open(node)
    cluster.place(spread(2, "w1", "w2"))
    summary = cluster.finish()
    assert set(cluster.statuses().values()) == {0}, cluster.said()
    assert (summary["steps"], summary["updates"], summary["lag_max"]) == (2560, 20, 0)


@pytest.mark.long
def test_more_actors_by_hand(cluster: Cluster) -> None:
    cluster.begin("ppo", actors="1..4", total_steps=16_384, envs=2, steps=32)
    for node in ("w1", "w2"):
        cluster.open(node)
    cluster.place(spread(4, "w1", "w2"))
    cluster.until_update(5)
    assert cluster.scale(3).fault == ""
    cluster.until(lambda: any(line.get("actors") == 3 for line in cluster.journal()))
    summary = cluster.finish()
    assert unrolled(summary["actors_by_update"])[0] == 1
    assert unrolled(summary["actors_by_update"])[-1] == 3
    assert 16_384 <= summary["steps"] < 16_384 + 3 * 2 * 32, "whole rounds of all three"
    assert set(cluster.statuses().values()) == {0}, cluster.said()


@pytest.mark.long
def test_a_node_that_is_silent_for_a_while_costs_nothing_but_time(cluster: Cluster) -> None:
    with cluster.slowly():
        cluster.begin(COUNTING, total_steps=ROWS, deadline=5.0)
        for node in ("w1", "w2"):
            cluster.open(node)
        cluster.place(spread(2, "w1", "w2"))
        cluster.until_update(5)
        with cluster.frozen("w2"):
            cluster.until(lambda: "w2, not heard for 8 s" in cluster.news[-1].waits_for)
    summary = cluster.finish()
    assert (summary["restarts"], summary["rows_lost"]) == (0, 0)
    assert_all_there(cluster, summary)


@pytest.mark.long
def test_a_node_that_comes_back_after_it_was_given_up(cluster: Cluster) -> None:
    with cluster.slowly():
        begin_counting(cluster, "w1", "w2", rows=5 * ROWS)
        cluster.until_update(5)
        with cluster.frozen("w2"):
            cluster.place(spread(2, "w1"), "w2", why="it was silent for 15 s")
            cluster.until(lambda: cluster.news[-1].facts.nodes == {"w1": [0, 1]})
        stray = cluster.executors["w2"]
        cluster.until(lambda: stray.poll() is not None)
    assert cluster.executors.pop("w2").returncode == 1
    assert "does not know this executor" in cluster.log("w2").read_text()
    assert_all_there(cluster, cluster.finish(), 5 * ROWS)
    assert len(places(cluster.run_folder, 1)) == 2


@pytest.mark.long
def test_the_head_daemon_is_restarted(cluster: Cluster) -> None:
    with cluster.slowly():
        begin_counting(cluster, "w1")
        cluster.until_update(3)
        cluster.restart_head()
        cluster.until(lambda: len(cluster.ups) == 2)
        assert cluster.ups[0] == cluster.ups[1]
        cluster.place(spread(2, "w1"), why="the run is up")
    summary = cluster.finish()
    assert (summary["restarts"], summary["rows_lost"]) == (0, 0)
    assert cluster.news[-1].state == "done"
    assert_all_there(cluster, summary)


@pytest.mark.long
def test_actors_move_off_a_node_and_nothing_is_lost(cluster: Cluster) -> None:
    with cluster.slowly():
        begin_counting(cluster, "w1", "w2")
        cluster.until_update(3)
        cluster.place(spread(2, "w1"), why="w2 is drained")
        cluster.until(lambda: cluster.news[-1].facts.nodes == {"w1": [0, 1], "w2": []})
        cluster.executors["w2"].send_signal(CLOSE)
    summary = cluster.finish()
    assert (summary["restarts"], summary["rows_lost"]) == (0, 0)
    assert_all_there(cluster, summary)
    by_image = any(line.get("start") == "moved" for line in cluster.journal())
    assert len(places(cluster.run_folder, 1)) == (1 if by_image else 2)


@pytest.mark.long
def test_a_run_waits_for_a_place_and_says_so(cluster: Cluster) -> None:
    cluster.begin(COUNTING, total_steps=ROWS)
    cluster.until(lambda: cluster.news and "a node" in cluster.news[-1].waits_for)
    cluster.place(spread(2, "w1"))
    cluster.until(lambda: "the executor on w1" in cluster.news[-1].waits_for)
    assert "a user may not send ExecutorUp" in cluster.answer("user:owner/1", SITE_UP)
    assert "the executor on w1" in cluster.news[-1].waits_for
    cluster.open("w1")
    assert_all_there(cluster, cluster.finish())


@pytest.mark.long
def test_a_run_is_told_to_stop(cluster: Cluster) -> None:
    with cluster.slowly():
        begin_counting(cluster, "w1")
        cluster.until_update(5)
        assert "registered" in cluster.scale(99).fault
        cluster.stop()
    summary = cluster.finish()
    assert cluster.statuses() == {"run": 130, "w1": 0}
    assert cluster.news[-1].state == "interrupted"
    assert summary["steps"] < ROWS
    assert_each_row_once(cluster.run_folder, summary["steps"], 2)
    assert cluster.survivors() == []


@pytest.mark.long
def test_the_run_process_is_killed_and_goes_on_from_its_checkpoint(cluster: Cluster) -> None:
    with cluster.slowly():
        begin_counting(cluster, "w1")
        cluster.until((cluster.run_folder / "checkpoint" / "manifest.json").exists)
        assert cluster.run is not None
        cluster.run.kill()
        cluster.run.wait()
    executor = cluster.executors.pop("w1")
    executor.send_signal(
        signal.SIGINT
    )  # as the worker daemon does with executors of an older epoch
    executor.wait()
    cluster.begin(COUNTING, resume=True, total_steps=ROWS)
    cluster.open("w1")
    cluster.place(spread(2, "w1"))
    summary = cluster.finish()
    assert (summary["outcome"], summary["steps"]) == ("done", ROWS)
    assert cluster.statuses() == {"run": 0, "w1": 0}
    assert cluster.survivors() == []
