"""`artos branch` where actors are on nodes: what comes of it, and that it is told in any case."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import psutil
import pytest
from clusters import Cluster
from elastic import needs_criu
from helpers import PATIENCE, below
from test_moving import paths as paths_of

from artos.errors import NotBranched, Refused
from artos.protocol.control import BranchRun, RunBranched
from artos.runtime import control
from artos.system.signals import CLOSE
from deploy.local.branching import branch

pytestmark = [pytest.mark.processes, pytest.mark.long]

JOURNEY, ROWS = "journey.py:workload", 2400
"""Its episodes have no end, and neither have their continuations."""


def begin(
    cluster: Cluster, workload: str = JOURNEY, rows: int = ROWS, *, criu: bool = True, **more: Any
) -> None:
    """Actor 0 on w1, actor 1 on w2, which may have no CRIU."""
    cluster.begin(workload, total_steps=rows, **more)
    cluster.open("w1")
    cluster.open("w2", criu=criu)
    cluster.place({0: "w1", 1: "w2"})
    cluster.until_update(3)


def ask(cluster: Cluster, times: int = 2, **more: Any) -> Path:
    """Have the episode of actor 1 continued; where what comes of it will be."""
    answer = control.branch(cluster.run_folder, BranchRun("run", 1, times, **more))
    return cluster.run_folder / answer.file


def actor_of(cluster: Cluster) -> psutil.Process:
    actor = cluster.member(cluster.executors["w2"], "actor-1.log")
    assert actor is not None
    return actor


def read(file: Path) -> Any:
    return json.loads(file.read_bytes())


def assert_done(cluster: Cluster, restarts: int = 0) -> None:
    summary = cluster.finish()
    assert (summary["outcome"], summary["steps"]) == ("done", ROWS)
    assert summary["restarts"] == restarts
    paths = [len(paths_of(cluster.run_folder, actor)) for actor in (0, 1)]
    assert paths == [1, 1 + restarts], "they go on in mid-episode"
    assert cluster.survivors() == []


def test_an_actor_is_branched_where_it_is_and_the_run_goes_on(cluster: Cluster) -> None:
    with cluster.slowly():
        begin(cluster)
        first, second = ask(cluster, 4, steps=5), ask(cluster, 3, steps=7, seed=1)
        cluster.until(lambda: first.exists() and second.exists())
        with pytest.raises(Refused, match="no actor 2"):
            branch(cluster.run_folder, 2)
        with pytest.raises(Refused, match="evaluate_every"):
            branch(cluster.run_folder, 1, best=True)
    for found, times, steps in ((read(first), 4, 5), (read(second), 3, 7)):
        assert (found["actor"], found["by"], found["fault"]) == (1, "fork", "")
        children = found["children"]
        assert len(children) == times
        assert {child["digest"] for child in children} == {found["digest"]}
        assert len({child["seed"] for child in children}) == times
        assert {(c["steps"], c["return"], c["ended"], c["fault"]) for c in children} == {
            (steps, float(steps), False, "")
        }
    assert_done(cluster)


# -- while its episode goes on ---------------------------------------------------------------------


def kill_node(cluster: Cluster) -> str:
    cluster.kill_node("w2")
    cluster.place({0: "w1", 1: "w1"}, "w2", why="it is silent")
    return "node w2 is gone (it is silent)"


def kill_actor(cluster: Cluster) -> str:
    actor_of(cluster).kill()
    return ""


def move(cluster: Cluster) -> str:
    cluster.place({0: "w1", 1: "w1"})
    return ""


def move_what_it_held(cluster: Cluster) -> str:
    return move(cluster)


def drain(cluster: Cluster) -> str:
    cluster.place({0: "w1", 1: "w1"})
    cluster.until(lambda: cluster.news[-1].facts.nodes == {"w1": [0, 1], "w2": []})
    cluster.executors["w2"].send_signal(CLOSE)
    return ""


def close(cluster: Cluster) -> str:
    """It is not told to move its actors first."""
    cluster.executors["w2"].send_signal(CLOSE)
    cluster.until(lambda: "w2" not in cluster.news[-1].facts.nodes)
    cluster.place({0: "w1", 1: "w1"})
    return "the run, or its part on this node, ended before that: ask again"


@pytest.mark.parametrize("what", [kill_node, kill_actor, move, move_what_it_held, drain, close])
def test_what_ends_it_is_told(cluster: Cluster, what: Callable[[Cluster], str]) -> None:
    with cluster.slowly():
        begin(cluster, criu=what is not move_what_it_held)
        file = ask(cluster)
        cluster.until(lambda: below(actor_of(cluster).pid))
        assert not file.exists()
        fault = what(cluster)
        cluster.until(file.exists)
        assert_branched_again(cluster)
    found = read(file)
    faults = [child["fault"] for child in found["children"]]
    if what is close:  # those that had ended by then are told
        assert any(fault in each for each in (faults or [found["fault"]]))
    else:
        assert fault in found["fault"]
    if what is kill_actor:  # its answer may have been on its way
        assert all("ended" in each for each in (faults or [found["fault"]]))
    elif not fault:
        assert ["goes to another node" in each for each in faults] == [True] * 2
    assert_done(cluster, restarts=what in (kill_node, kill_actor, close))


def assert_branched_again(cluster: Cluster) -> None:
    """Wherever the actor is once it has a process."""
    files: list[Path] = []

    def is_done() -> bool:
        if files and not files[-1].exists():
            return False
        if files and not (found := read(files[-1]))["fault"]:
            return {child["fault"] for child in found["children"]} == {""}
        with suppress(Refused):
            files.append(ask(cluster, steps=3))
        return False

    cluster.until(is_done)


@needs_criu
@pytest.mark.exhaustive
@pytest.mark.usefixtures("atari")
def test_an_emulator_with_threads_is_branched_before_and_after_it_moves(cluster: Cluster) -> None:
    """By copies of images, of which one is made of a process that came as an image itself."""
    small = {"actors": 2, "envs": 1, "steps": 128, "epochs": 1, "threads": 1}
    begin(cluster, "ppo", 10**6, env="PongNoFrameskip-v4", **small)
    file = ask(cluster, 100)
    cluster.place({0: "w1", 1: "w1"})
    cluster.until(file.exists)
    assert_branched_again(cluster)
    results = (cluster.run_folder / "branches").iterdir()
    assert {"clone"} <= {read(each)["by"] for each in results} <= {"clone", ""}
    cluster.stop()
    assert cluster.finish()["rows_lost"] == 0
    assert cluster.survivors() == []


def test_the_end_of_the_run_is_told(cluster: Cluster) -> None:
    with cluster.slowly():
        begin(cluster)
        file = ask(cluster)
        cluster.stop()
        cluster.finish()
    told = read(file)
    said = [told["fault"]] if told["fault"] else [child["fault"] for child in told["children"]]
    assert any("the run, or its part on this node, ended" in each for each in said)
    assert cluster.survivors() == []


def test_an_actor_without_a_place_is_refused_at_once(cluster: Cluster) -> None:
    cluster.begin(JOURNEY, total_steps=ROWS)
    cluster.open("w1")
    cluster.place({0: "w1"})
    cluster.until(lambda: cluster.news and "a node with" in cluster.news[-1].waits_for)
    with pytest.raises(Refused, match=r"actor 1 has no place .* a free slot: ask again"):
        branch(cluster.run_folder, 1)
    cluster.place({0: "w1", 1: "w1"})
    assert_done(cluster)


def test_a_process_of_the_run_that_is_killed_is_waited_for_by_nobody(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, ask = Event(), control.branch

    def note(run: Path, order: BranchRun) -> RunBranched:
        answer = ask(run, order)
        asked.set()
        return answer

    monkeypatch.setattr(control, "branch", note)
    with cluster.slowly(), ThreadPoolExecutor(1) as thread:
        begin(cluster)
        waits = thread.submit(branch, cluster.run_folder, 1)
        assert asked.wait(PATIENCE)
        assert cluster.run is not None
        cluster.run.kill()
        cluster.run.wait(PATIENCE)
        with pytest.raises(NotBranched, match="no live run in"):
            waits.result(PATIENCE)
