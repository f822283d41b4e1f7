"""A run on a cluster whose learner is two processes, beside its run on the head."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import psutil
import pytest
from gated import GATE, opened
from helpers import SUPPORT, below
from real_cluster import Cluster
from real_runs import journal, updates

pytestmark = [pytest.mark.processes, pytest.mark.long]

SETTINGS = ("envs=2", "steps=32", "minibatches=2", "epochs=2", "learners=2")
RUN = "ppo-default-seed1-1"


def test_whoever_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    """Both replicas, a node with an actor, the run with both of them: learning goes on."""
    for name in ("w1", "w2"):
        cluster.start_worker(name, "--slots", 1)
    cluster.alive("w1", "w2")
    (code := tmp_path / "code").mkdir()
    shutil.copy(SUPPORT / "gated.py", code)
    settings = [part for each in SETTINGS for part in ("--set", each)]
    gated = ("--env", "gated:Gated", "--total-steps", 4 * 5 * GATE)  # 10 updates from gate to gate
    submit = cluster.submit("ppo", *gated, *settings, "--run-dir", RUN, "--json", cwd=code)
    run = cluster.runs / RUN

    def learn() -> None:
        before = updates(run)
        cluster.until(lambda: updates(run) > before + 2)

    def kill(log: str) -> None:
        (member,) = cluster.until(lambda: [p for p in below(head()) if writes(p, log)])
        member.kill()

    def head() -> int:
        return cluster.head.process.pid

    learn()
    kill("learner-1.log")
    opened(tmp_path, 1)
    learn()
    kill("learner.log")
    opened(tmp_path, 2)
    learn()
    cluster.workers["w2"].kill()
    cluster.alive("w1")
    opened(tmp_path, 3)
    learn()
    (process,) = cluster.processes("head.run")
    process.kill()
    opened(tmp_path, 4)
    assert submit.wait() == 0, cluster.story()
    summary = json.loads(submit.out)
    assert (summary["outcome"], summary["updates"]) == ("done", 50)
    died = [line["died"] for line in journal(run) if line.get("died", "").startswith("learner")]
    assert died == ["learner 1", "learner"]
    cluster.until(lambda: cluster.left() == [])


def writes(process: psutil.Process, log: str) -> bool:
    try:
        return Path(f"/proc/{process.pid}/fd/1").readlink().name == log
    except OSError:
        return False
