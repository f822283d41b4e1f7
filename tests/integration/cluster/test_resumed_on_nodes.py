"""A run that saves all goes on from what its members held, on whatever machines they are then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from books import episodes, shown_to
from clusters import Cluster
from drawing import drawn_by
from numpy.typing import NDArray
from real_runs import Artos, checkpointed

from artos.runs.checkpoint import Manifest, read_manifest

pytestmark = pytest.mark.processes

PPO = {
    "env": "drawn:Noisy", "envs": 2, "steps": 16, "minibatches": 2, "epochs": 2, "max_lag": 0,
    "anneal": "false", "checkpoint": "all",
}  # fmt: skip
ROUND = 2 * 2 * 16
WHOLE, PART = 12 * ROUND, 7 * ROUND
NODES, OTHERS = {0: "w1", 1: "w2"}, {0: "w3", 1: "w1"}
Arrays = dict[str, NDArray[Any]]


def saved(cluster: Cluster) -> Manifest:
    return read_manifest(cluster.run_folder / "checkpoint")


@pytest.fixture
def here(code: Path) -> Iterator[Callable[..., str]]:
    """Run something on this machine, to its end; returns what was said."""
    started: list[Artos] = []

    def run(*command: object, **settings: object) -> str:
        pairs = [word for pair in settings.items() for word in ("--set", "{}={}".format(*pair))]
        started.append(Artos(code, (*command, "--json", *pairs)))
        outcome = started[-1].wait()
        assert outcome.status == 0, outcome.err
        return outcome.err

    yield run
    for process in started:
        process.end()
        assert not process.survivors()


def there(
    cluster: Cluster, workload: str, places: dict[int, str], *, restarts: int = 0, **settings: Any
) -> None:
    """Run something on these nodes, to its end; ``restarts`` happened before."""
    cluster.executors.clear()
    cluster.begin(workload, **settings)
    for node in sorted({*places.values()}):
        cluster.open(node)
    cluster.place(places)
    summary = cluster.finish()
    assert summary["outcome"] == "done", cluster.said()
    assert summary["restarts"] == restarts
    assert set(cluster.statuses().values()) == {0}, cluster.said()
    assert cluster.survivors() == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("nodes", "here"),
        pytest.param("nodes", "nodes", marks=pytest.mark.exhaustive),
        pytest.param("here", "nodes", marks=pytest.mark.exhaustive),
    ],
)
def test_in_two_parts_it_is_the_same(
    first: str, second: str, here: Callable[..., str], cluster: Cluster, code: Path
) -> None:
    """To the last bit, as if it had never ended; the second part is on other nodes."""
    folder, command = cluster.run_folder, ("run", "ppo", "--actors", 2, "--seed", 3)
    here(*command, "--run-dir", "whole", total_steps=WHOLE, **PPO)
    if first == "here":
        here(*command, "--run-dir", folder, total_steps=PART, **PPO)
    else:
        there(cluster, "ppo", NODES, actors=2, total_steps=PART, **PPO)
    assert saved(cluster).not_restored == ()
    if second == "here":
        assert "everything is restored" in here("run", "--resume", folder, total_steps=WHOLE)
    else:
        there(cluster, "ppo", OTHERS, resume=True, total_steps=WHOLE)
    expected, found = checkpointed(code / "whole"), checkpointed(folder)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    assert episodes(folder) == episodes(code / "whole")


def begin_drawing(cluster: Cluster) -> None:
    """A run under way on both nodes that does not end by itself."""
    cluster.begin("drawing.py:workload", total_steps=1_000_000, checkpoint="all")
    for node in ("w1", "w2"):
        cluster.open(node)
    cluster.place(NODES)
    cluster.until_update(10)


@pytest.mark.long
def test_rows_of_a_run_that_was_stopped_are_learned_from_once(cluster: Cluster) -> None:
    """Actors were ahead of the learner; environments go on in mid-episode, on the other node."""
    with cluster.slowly():
        begin_drawing(cluster)
        cluster.stop()
        stopped = cluster.finish()
    assert stopped["outcome"] == "interrupted", cluster.said()
    before = saved(cluster)
    assert before.not_restored == ()
    assert any(row % 50 for row in before.rows), "it was in mid-episode"
    there(cluster, "drawing.py:workload", OTHERS, resume=True, total_steps=before.steps + 320)
    for actor in (0, 1):
        identity, shown = shown_to(cluster.run_folder, actor)
        assert len(set(identity)) == 1
        # An episode of 50 steps shows 51 observations, the last of which is in no row.
        drawn = drawn_by(identity[0], 2 * len(shown))
        assert shown == [drawn[at] for at in range(len(drawn)) if (at + 1) % 51][: len(shown)]


@pytest.mark.long
def test_an_actor_whose_node_is_killed_at_the_end_begins_anew(cluster: Cluster) -> None:
    """It is named, and so is nobody else."""
    with cluster.slowly():
        begin_drawing(cluster)
        cluster.kill_node("w2")
        cluster.place({0: "w1"}, "w2", why="it was killed")
        cluster.stop()
        assert cluster.finish()["outcome"] == "interrupted", cluster.said()
    (lost,) = saved(cluster).not_restored
    assert lost.startswith("actor 1 starts again")
    steps = saved(cluster).steps + 320
    there(cluster, "drawing.py:workload", OTHERS, resume=True, total_steps=steps, restarts=1)
    assert [len(set(shown_to(cluster.run_folder, actor)[0])) for actor in (0, 1)] == [1, 2]
