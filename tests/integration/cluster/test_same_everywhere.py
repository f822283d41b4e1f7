"""In one process, on one machine and on a cluster a run learns the same, to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alternating import ROUND
from clusters import Cluster
from helpers import PATIENCE
from numpy.typing import NDArray
from real_runs import Artos, checkpointed
from text_servers import LITTLE, TextServer

from artos.system.locks import FileLock
from artos.transport.weights.files import SIGNAL
from artos.transport.weights.vllm import VllmServer

pytestmark = pytest.mark.processes

ROUNDS = 24
Arrays = dict[str, NDArray[Any]]
PPO = {"envs": 2, "steps": 16, "minibatches": 2, "epochs": 2, "hidden": "16,16"}
GRPO = {"groups": 2, "group": 4, "width": 16, "threads": 1, "max_lag": 0}
TASK = str(LITTLE["env"])
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "recurrent ppo, scaled, in two stages": (
        "ppo",
        {**PPO, "total_steps": ROUNDS * 64, "recurrent": "true", "normalize": "true",
         "pipeline": "dual"},
    ),
    "ppo, answered by a server": (
        "ppo",
        {**PPO, "total_steps": ROUNDS * 32, "actors": 1, "max_lag": 0, "inference": "central"},
    ),
    "dqn": ("alternating.py:workload", {"total_steps": ROUNDS * ROUND}),
    "dqn, prioritised": (
        "alternating.py:workload", {"total_steps": ROUNDS * ROUND, "replay": "prioritised"},
    ),
    "dqn, answered by a server": (
        "alternating.py:workload",
        {"total_steps": ROUNDS * ROUND, "actors": 1, "inference": "central"},
    ),
    "grpo": ("grpo", {**GRPO, "total_steps": ROUNDS * 96}),
}  # fmt: skip


@pytest.fixture
def learned_here(code: Path) -> Iterator[Callable[..., Arrays]]:
    """Run a workload on this machine; returns all arrays of its last checkpoint."""
    started: list[Artos] = []

    def run(name: str, workload: str, settings: dict[str, Any], *flags: str) -> Arrays:
        pairs = [word for pair in settings.items() for word in ("--set", "{}={}".format(*pair))]
        command = ("run", workload, "--seed", 3, "--run-dir", name, "--json", *flags, *pairs)
        started.append(Artos(code, command))
        outcome = started[-1].wait()
        assert outcome.status == 0, outcome.err
        return checkpointed(code / name)

    yield run
    for process in started:
        process.end()
        assert not process.survivors()


MORE = {"ppo, answered by a server", "dqn", "dqn, answered by a server", "grpo"}
"""What they add is also in others."""


@pytest.mark.long
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.exhaustive] if case in MORE else []) for case in CASES],
)
def test_learned_the_same(case: str, learned_here: Callable[..., Arrays], cluster: Cluster) -> None:
    workload, settings = CASES[case]
    inline = learned_here("inline", workload, settings, "--inline")
    machine = learned_here("machine", workload, settings)
    begin(cluster, workload, settings)
    assert_same(cluster, inline, machine)


def begin(cluster: Cluster, workload: str, settings: dict[str, Any]) -> None:
    cluster.begin(workload, **settings)
    for node in ("w1", "w2"):
        cluster.open(node)
    cluster.place({0: "w1", 1: "w2"})


def assert_same(cluster: Cluster, inline: Arrays, machine: Arrays) -> None:
    summary = cluster.finish()
    assert (summary["outcome"], summary["nodes"]) == ("done", ["w1", "w2"]), cluster.said()
    assert summary["updates"] >= ROUNDS - 1
    assert any(name.startswith("model.") for name in inline)
    for name, array in inline.items():
        np.testing.assert_array_equal(machine[name], array, err_msg=f"{name}: one machine")
        there = checkpointed(cluster.run_folder)[name]
        np.testing.assert_array_equal(there, array, err_msg=f"{name}: a cluster")
    assert cluster.survivors() == []


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TextServer]:
    running = TextServer(tmp_path)
    yield running
    running.kill()


@pytest.mark.long
@pytest.mark.parametrize("weights", [pytest.param("files", marks=pytest.mark.exhaustive), "http"])
def test_learned_the_same_of_weights_that_take_another_way(
    weights: str, learned_here: Callable[..., Arrays], cluster: Cluster, tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    """Actors of both nodes want a version at once: with ``http`` one of them tells the server."""
    way = GRPO | {"total_steps": 0, "total_updates": ROUNDS, "weights": weights}
    if weights == "http":
        way["server"] = request.getfixturevalue("server").url

    def at(name: str) -> dict[str, Any]:
        return way | {"weights_folder": str(tmp_path / f"weights-{name}")}

    inline = learned_here("inline", "grpo", at("inline"), "--env", TASK, "--inline")
    machine = learned_here("machine", "grpo", at("machine"), "--env", TASK)
    there = tmp_path / "weights-cluster" / "run_0"
    there.mkdir(parents=True)
    telling = FileLock.take(there / ".telling")
    assert telling is not None
    with telling:
        begin(cluster, "grpo", at("cluster") | {"env": TASK})
        cluster.until(lambda: (there / SIGNAL).exists() and sampling(cluster))
        if weights == "http":
            assert not VllmServer(way["server"], "artos", PATIENCE).version().startswith(str(there))
            assert not cluster.updates()
    assert_same(cluster, inline, machine)


def sampling(cluster: Cluster) -> bool:
    """Whether actors were told to."""
    return any(line.get("trigger") == "actors.sample" for line in cluster.journal())
