"""Roles that answer on a cluster of real daemons: on a leased device, and killed with their run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import psutil
import pytest
from helpers import SUPPORT, below
from real_cluster import Cluster
from real_runs import journal, updates

from artos.pool.view import read_pool

pytestmark = [pytest.mark.processes, pytest.mark.long]

RUN, ROWS = "asking-workload-seed1-1", 9_600


@pytest.mark.parametrize("place", [pytest.param("cpu", marks=pytest.mark.exhaustive), "pool"])
def test_whoever_is_killed_rows_are_answered_as_they_say(
    place: str, cluster: Cluster, code: Path
) -> None:
    """A server, the run, a node with its server. The learner fails where an answer is wrong."""
    shutil.copy(SUPPORT / "asking.py", code)
    for name in ("w1", "w2"):
        devices = ("--devices", f"cpu:{name}") if place == "pool" else ()
        cluster.start_worker(name, "--slots", 1, *devices)
    cluster.alive("w1", "w2")
    asked = ("asking.py:workload", "--set", f"place={place}", "--total-steps", ROWS, "--json")
    submit = cluster.submit(*asked, cwd=code)
    run = cluster.runs / RUN

    def learn() -> None:
        cluster.until(lambda: updates(run) >= 1)
        before = updates(run)
        cluster.until(lambda: updates(run) > before + 5)

    def server(name: str) -> psutil.Process:
        (found,) = cluster.until(
            lambda: [p for p in below(cluster.workers[name].process.pid) if answers(p)]
        )
        return found

    learn()
    lent = {each.kind for each in read_pool().workloads if each.workload.startswith(RUN)}
    assert ("device" in lent) == (place == "pool")
    server("w1").kill()
    learn()
    (process,) = cluster.processes("head.run")
    process.kill()
    cluster.until(lambda: cluster.status()[1][RUN]["restarts"] == 1)
    learn()
    server("w2")
    cluster.workers["w2"].kill()
    cluster.alive("w1")
    learn()
    cluster.hurry()
    assert submit.wait() == 0, cluster.story()
    assert json.loads(submit.out)["steps"] == ROWS
    died = [line["died"] for line in journal(run) if "died" in line]
    assert "inference" in died
    assert not [line for line in journal(run) if line.get("died") == "learner"]
    cluster.until(lambda: cluster.left() == [])
    assert cluster.stop() == {"w1": 0, "head": 0}


def answers(process: psutil.Process) -> bool:
    try:
        return Path(f"/proc/{process.pid}/fd/1").readlink().name == "inference.log"
    except OSError:
        return False
