"""A run on a cluster whose learner is two processes, beside its run on the head."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest
from helpers import below
from real_cluster import Cluster
from real_runs import journal, updates

pytestmark = [pytest.mark.processes, pytest.mark.long]

SETTINGS = ("envs=2", "steps=32", "minibatches=2", "epochs=2", "learners=2")


def test_one_of_them_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    cluster.start_worker("w1")
    cluster.alive("w1")
    settings = [part for each in SETTINGS for part in ("--set", each)]
    submit = cluster.submit("ppo", "--total-steps", 128 * 40, *settings, "--json", cwd=tmp_path)
    run = cluster.runs / "ppo-default-seed1-1"
    cluster.until(lambda: updates(run) > 3)
    second = next(filter(is_second, below(cluster.head.process.pid)))
    second.kill()
    assert submit.wait() == 0, cluster.story()
    summary = json.loads(submit.out)
    assert (summary["outcome"], summary["updates"], summary["restarts"]) == ("done", 40, 1)
    assert [line["died"] for line in journal(run) if "died" in line] == ["learner 1"]
    cluster.until(lambda: cluster.left() == [])


def is_second(process: psutil.Process) -> bool:
    log = Path(f"/proc/{process.pid}/fd/1")
    return log.exists() and log.readlink().name == "learner-1.log"
