"""Algorithms that users write by the documents alone: wherever they run, and whoever is killed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from clusters import Cluster
from helpers import ROOT
from inline_runs import commanded
from named import acting
from real_runs import Artos, kill_each

from artos.specs.members import Member

pytestmark = [pytest.mark.processes, pytest.mark.long]

EXAMPLES = {
    "my_es": (), "my_rnd": (), "my_asked": (Member("judge"), Member("model")),
    "my_r2d2": (), "my_rainbow": (), "my_planning": (), "my_grpo": (),
    "my_tree_search": (),
    "my_inference": (Member("inference"),), "my_dyna": (), "my_league": (),
    "my_market": (Member("buyers"),),
}  # fmt: skip
"""Files, and who else may be killed."""
BESIDE = {"my_tree_search": ("my_branches", "my_inference"), "my_dyna": ("my_dqn",)}
"""Files that they import."""
FIRST = {"my_league": "self", "my_market": "seller"}
"""What the first learner is called, if not ``learner``."""
SETTINGS = {"my_dyna": {"actors": 2}}
"""Where one actor is the default."""
OFTEN = ("my_es", "my_rnd", "my_asked")
"""Those of which nodes are lost in each run of the tests."""
ENDLESS = ("--total-steps", 0, "--total-updates", 100_000)


@pytest.fixture(params=EXAMPLES)
def name(request: pytest.FixtureRequest, code: Path) -> str:
    for each in (request.param, *BESIDE.get(request.param, ())):
        shutil.copy(ROOT / "docs" / "examples" / f"{each}.py", code)
    return str(request.param)


def test_here_they_go_on_whoever_is_killed(name: str, code: Path) -> None:
    """Then from their checkpoints."""
    folder, first = code / "run", FIRST.get(name, "learner")
    victims = (acting(1)[0], Member(first), *EXAMPLES[name])
    actors = [word for n, v in SETTINGS.get(name, {}).items() for word in (f"--{n}", v)]
    command = ("run", f"{name}.py:workload", *ENDLESS, *actors, "--run-dir", folder)
    started = [Artos(code, command)]
    try:
        kill_each(started[0], folder, victims, (first, "actor 0", "actor 1"))
        ended = json.loads((folder / "summary.json").read_text())
        assert ended["restarts"] == len(victims)
        wanted = ended["updates"] + 3
        more = ("run", "--resume", folder, "--total-updates", wanted, "--json")
        started.append(Artos(code, more))
        again = started[1].wait()
        assert again.status == 0, again.err
        assert again.summary["updates"] == wanted
    finally:
        for process in started:
            process.end()


def test_in_one_process_they_go_on_from_their_checkpoints(name: str, code: Path) -> None:
    updates = ("--inline", "--json", "--total-updates")
    first = ("run", f"{name}.py:workload", "--run-dir", "run", "--total-steps", 0, *updates, 3)
    for command in (first, ("run", "--resume", "run", *updates, 5)):
        found = commanded(code, command)
        assert found.status == 0, found.err
    assert found.summary["updates"] == 5


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in OFTEN else pytest.mark.exhaustive)
        for name in EXAMPLES
    ],
    indirect=True,
)
def test_on_nodes_they_go_on_whoever_is_killed(name: str, cluster: Cluster) -> None:
    """The learner, those beside it and a node; then the run goes on from its checkpoint."""
    workload, first = f"{name}.py:workload", FIRST.get(name, "learner")
    settings = {"total_steps": 0, **SETTINGS.get(name, {})}
    cluster.begin(workload, total_updates=100_000, **settings)
    for node in ("w1", "w2"):
        cluster.open(node)
    cluster.place({0: "w1", 1: "w2"})
    cluster.until_update(3, first)
    cluster.kill_learner(first)
    cluster.until_update(cluster.updates(first) + 3, first)
    cluster.kill_node("w2")
    cluster.place({0: "w1", 1: "w1"}, "w2", why="it was silent for 15 s")
    cluster.until_update(cluster.updates(first) + 3, first)
    cluster.stop()
    made = cluster.finish()["updates"]

    cluster.begin(workload, resume=True, total_updates=made + 3, **settings)
    cluster.open("w1")
    cluster.place({0: "w1", 1: "w1"})
    again = cluster.finish()
    assert (again["outcome"], again["updates"], again["restarts"]) == ("done", made + 3, 0)
    assert cluster.survivors() == []
