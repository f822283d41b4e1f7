"""Agents of two policies on a cluster of daemons: a worker is killed, the run stopped, resumed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from helpers import ROOT
from real_cluster import Cluster
from real_runs import journal

pytestmark = [pytest.mark.processes, pytest.mark.long]

RUNS = Path(__file__).parents[1] / "runs"
GAMES = ROOT / "tests" / "artos" / "envs" / "games_for_tests.py"
RUN = "guessers-workload-seed1-1"


def test_both_policies_go_on(cluster: Cluster, code: Path) -> None:
    shutil.copy(RUNS / "guessers.py", code)
    shutil.copy(GAMES, code / "guessing.py")
    for name in ("w1", "w2"):
        cluster.start_worker(name)
    cluster.alive("w1", "w2")
    options = ("--total-steps", 1_000_000, "--json")
    submit = cluster.submit("guessers.py:workload", *options, cwd=code)
    run = cluster.runs / RUN

    def updates() -> int:
        by = [line["by"] for line in journal(run) if "done" in line]
        return min(by.count("middle"), by.count("others"))

    cluster.until(lambda: (run / "journal.jsonl").exists() and updates() > 4)
    before = updates()
    for process in (*cluster.processes("workers.executor")[:1], cluster.workers["w1"].process):
        process.kill()
    cluster.alive("w2")
    cluster.until(lambda: updates() > before + 4)
    cluster.ask("stop", RUN)
    assert submit.wait() == 130, cluster.story()
    summary = json.loads(submit.out)
    assert (summary["lag_max"], summary["learners"]["others.lag_max"]) == (0, 0)
    limit = ("--total-steps", summary["steps"] + 960)
    again = cluster.submit("--resume", RUN, *limit, "--json", cwd=code)
    assert again.wait() == 0, cluster.story()
    then = json.loads(again.out)
    assert then["outcome"] == "done"
    assert then["learners"]["others.version"] > summary["learners"]["others.version"]
    cluster.until(lambda: cluster.left() == [])
    assert cluster.stop()["head"] == 0
