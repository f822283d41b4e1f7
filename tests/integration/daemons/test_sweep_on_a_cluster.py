"""A sweep whose runs a real head queues: its files come here, and it goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from real_cluster import Cluster

import artos

pytestmark = [pytest.mark.processes, pytest.mark.long]


def test_a_sweep_of_the_command_gets_more_values_from_python(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.start_worker("w1")
    cluster.alive("w1")
    folder = tmp_path / "lr"
    sweep = cluster.start(
        "sweep", "sweep", "ppo", "--env", "CartPole-v1", "--total-steps", 1_024, "--actors", 1,
        "--grid", "lr=0.001,0.0003", "--seeds", 1, "--folder", folder, *cluster.towards_head,
        "--json",
    )  # fmt: skip
    assert sweep.wait() == 0, cluster.story()
    runs = {run["name"]: run for run in json.loads(sweep.out)}
    assert runs.keys() == {"lr=0.001-seed1", "lr=0.0003-seed1"}
    for name, run in runs.items():
        assert (run["outcome"], run["steps"], run["why"]) == ("done", 1_024, ""), run
        summary = json.loads((folder / name / "summary.json").read_text())
        assert summary["mean_return_100"] == run["mean_return_100"]
        assert artos.load(folder / name).steps == 1_024
    there = cluster.status()[1]
    assert [run["outcome"] for run in there.values()] == ["done"] * 2
    assert all(name.startswith("lr-lr-0.00") for name in there)
    assert (folder / "sweep.csv").read_text().count("\n") == 3
    assert (folder / "sweep.png").stat().st_size > 1000

    with artos.Cluster(cluster.endpoint, cluster.keys) as far:
        found = artos.sweep(
            "ppo", env="CartPole-v1", total_steps=1_024, actors=1, seeds=1, folder=folder,
            grid={"lr": [0.001, 0.0003, 0.01]}, cluster=far,
        )  # fmt: skip
    assert {run.name for run in found.runs} == {*runs, "lr=0.01-seed1"}
    assert all(run.outcome == "done" for run in found.runs)
    assert len(cluster.status()[1]) == 3, "those that were done are not repeated"
    cluster.until(lambda: cluster.left() == [])
    assert cluster.stop() == {"w1": 0, "head": 0}


def test_a_sweep_whose_client_was_killed_waits_for_its_runs(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.start_worker("w1")
    cluster.alive("w1")
    words = (
        "sweep", "ppo", "--env", "CartPole-v1", "--total-steps", 40_960, "--actors", 1, "--seeds",
        1, "--folder", tmp_path / "s", *cluster.towards_head, "--json",
    )  # fmt: skip
    first = cluster.start("first", *words)
    cluster.until(lambda: any(run["state"] == "running" for run in cluster.status()[1].values()))
    first.kill()
    second = cluster.start("second", *words)
    assert second.wait() == 0, cluster.story()
    (run,) = json.loads(second.out)
    assert (run["outcome"], run["steps"], run["why"]) == ("done", 40_960, "")
    assert len(cluster.status()[1]) == 1, "it was not submitted again"
    cluster.until(lambda: cluster.left() == [])
    assert cluster.stop() == {"w1": 0, "head": 0}
