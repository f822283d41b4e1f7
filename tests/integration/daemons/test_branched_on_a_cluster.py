"""`artos branch` on the machine of a head: its run is carried by a worker, and goes on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from real_cluster import Cluster

pytestmark = [pytest.mark.processes, pytest.mark.long]

RUN, STEPS = "ppo-paced_pole-pole-seed4-1", 6400


def branched(cluster: Cluster, *arguments: object, status: int = 0) -> Any:
    """What the command says, by the folder of the run."""
    command = cluster.start(
        f"branch{len(cluster.others)}", "branch", cluster.runs / RUN, *arguments, "--json"
    )
    assert command.wait() == status, command.said
    return json.loads(command.out) if command.out else command.said


def test_a_run_of_a_head_is_branched_and_ends_as_if_it_had_not_been(
    cluster: Cluster, code: Path
) -> None:
    shutil.copy(Path(__file__).with_name("paced_pole.py"), code)
    cluster.start_worker("w1", "--slots", 2)
    cluster.alive("w1")
    small = {
        "actors": 2, "envs": 2, "steps": 16, "minibatches": 2, "epochs": 2, "max_lag": 0,
        "evaluate_every": 1, "evaluation_episodes": 1,
    }  # fmt: skip
    settings = [word for name, value in small.items() for word in ("--set", f"{name}={value}")]
    submit = cluster.submit(
        "ppo", "--env", "paced_pole:pole", "--total-steps", STEPS, "--seed", 4, *settings, "--json",
        cwd=code,
    )  # fmt: skip
    cluster.until_under_way(RUN)
    first = branched(cluster, "--actor", 1, "--times", 5)
    second = branched(cluster, "--times", 3, "--until", 4, "--env", 1, "--greedy")
    folder = cluster.runs / RUN
    cluster.until((folder / "best" / "manifest.json").exists)
    best = branched(cluster, "--times", 2, "--best", "--greedy", "--until", 20)
    wrong = branched(cluster, "--actor", 2, "--times", 1, status=2)
    cluster.hurry()
    assert submit.wait() == 0, cluster.story()
    summary = json.loads(submit.out)
    cluster.until(lambda: cluster.left() == [])
    over = branched(cluster, "--times", 2, status=2)

    assert (first["actor"], first["env"], first["by"]) == (1, 0, "fork")
    children = first["children"]
    assert [child["fault"] for child in children] == [""] * 5
    assert {child["digest"] for child in children} == {first["digest"]}
    assert len({child["seed"] for child in children}) == 5
    assert all(child["ended"] for child in children)
    assert len({child["return"] for child in children}) > 1, "each went a way of its own"
    assert (second["env"], len(second["children"])) == (1, 3)
    assert all(child["steps"] <= 4 for child in second["children"])
    assert {child["digest"] for child in best["children"]} == {best["digest"]}
    assert {child["weights"] for child in best["children"]} == {str(folder)}
    (version,) = {child["version"] for child in best["children"]}
    assert version <= best["version"]
    assert len({child["return"] for child in best["children"]}) == 1, "nothing else is random"
    assert "no actor 2" in wrong
    assert "there is no live run" in over
    files = sorted(path.name for path in (folder / "branches").iterdir())
    assert files == ["1.json", "2.json", "3.json"]
    assert (summary["outcome"], summary["steps"], summary["restarts"]) == ("done", STEPS, 0)
    assert (summary["rows_lost"], summary["nodes"]) == (0, ["w1"])
    assert cluster.stop() == {"w1": 0, "head": 0}
