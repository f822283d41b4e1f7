"""In one process, on one machine and on a cluster a run learns the same, to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alternating import ROUND
from clusters import Cluster
from numpy.typing import NDArray
from real_runs import Artos, checkpointed

pytestmark = pytest.mark.processes

ROUNDS = 24
Arrays = dict[str, NDArray[Any]]
PPO = {"envs": 2, "steps": 16, "minibatches": 2, "epochs": 2, "hidden": "16,16"}
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
    "grpo": (
        "grpo",
        {"groups": 2, "group": 4, "width": 16, "threads": 1, "max_lag": 0,
         "total_steps": ROUNDS * 96},
    ),
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


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_learned_the_same(case: str, learned_here: Callable[..., Arrays], cluster: Cluster) -> None:
    workload, settings = CASES[case]
    inline = learned_here("inline", workload, settings, "--inline")
    machine = learned_here("machine", workload, settings)
    cluster.begin(workload, **settings)
    for node in ("w1", "w2"):
        cluster.open(node)
    cluster.place({0: "w1", 1: "w2"})
    summary = cluster.finish()
    assert (summary["outcome"], summary["nodes"]) == ("done", ["w1", "w2"]), cluster.said()
    assert summary["updates"] >= ROUNDS - 1
    assert any(name.startswith("model.") for name in inline)
    for name, array in inline.items():
        np.testing.assert_array_equal(machine[name], array, err_msg=f"{name}: one machine")
        there = checkpointed(cluster.run_folder)[name]
        np.testing.assert_array_equal(there, array, err_msg=f"{name}: a cluster")
    assert cluster.survivors() == []
