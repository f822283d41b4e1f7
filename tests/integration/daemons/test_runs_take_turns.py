"""More runs than slots on a node: they take turns, and the slot is never held twice."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from real_cluster import Cluster, Command, assert_each_row_once

from artos.pool.view import read_pool

pytestmark = [pytest.mark.processes, pytest.mark.long]

RUNS, ROWS = 4, 1600


def test_four_runs_on_one_slot(cluster: Cluster, code: Path) -> None:
    """Real rounds of some 60 ms each; the slot has one holder at a time, and all runs end."""
    shutil.copy(Path(__file__).with_name("pondering.py"), code)
    cluster.start_worker("w1", "--slots", 1, "--runs-per-slot", RUNS)
    cluster.alive("w1")
    began = time.monotonic()
    names = [f"together-{n}" for n in range(RUNS)]
    flags = ("--total-steps", ROWS, "--json")
    submits = [
        cluster.submit("pondering.py:workload", "--run-dir", each, *flags, cwd=code)
        for each in names
    ]
    cluster.until(lambda: len(_there(cluster)) == RUNS)
    cluster.until(lambda: not _go_on(submits, cluster))
    seconds = time.monotonic() - began
    assert [submit.wait() for submit in submits] == [0] * RUNS, cluster.story()
    summaries = [json.loads(submit.out) for submit in submits]
    assert [each["steps"] for each in summaries] == [ROWS] * RUNS
    assert [each["restarts"] for each in summaries] == [0] * RUNS
    for each in names:
        assert_each_row_once(cluster.runs / each, ROWS, 2)
    held = sum(each["usage"]["cpu_seconds_held"] for each in summaries)
    assert 0 < held <= seconds, "one slot cannot be held for longer than there was time"


def _there(cluster: Cluster) -> dict[str, Any]:
    """The runs on the node that is alive, with how many actors each has."""
    (node,) = [each for each in cluster.status()[0].values() if each["alive"]]
    found: dict[str, Any] = node["runs"]
    return found


def _go_on(submits: list[Command], cluster: Cluster) -> bool:
    """Whether a run goes on. At no moment at which anybody looks are there too many of anything."""
    assert len(read_pool().holders) <= 1, "two actors on one slot"
    assert len(_there(cluster)) <= RUNS
    return any(submit.process.poll() is None for submit in submits)
