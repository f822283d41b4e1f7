"""More runs than slots on a node: they take turns, and the slot is never held twice."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from real_cluster import Cluster, Command, assert_each_row_once

from artos.pool.view import read_pool

pytestmark = [pytest.mark.processes, pytest.mark.long]

RUNS, IN_TURN, ROWS = 4, 2, 1600


def test_four_runs_on_one_slot(cluster: Cluster, code: Path) -> None:
    """Real rounds of some 60 ms each; the slot has one holder at a time, and all runs end."""
    shutil.copy(Path(__file__).with_name("pondering.py"), code)
    cluster.start_worker("w1", "--slots", 1, "--runs-per-slot", RUNS)
    cluster.alive("w1")
    together, held = _all(cluster, code, "together", RUNS, at_once=RUNS)
    cluster.workers["w1"].signal(signal.SIGUSR1)  # as Slurm before the end of an allocation
    assert cluster.workers["w1"].wait() == 0, cluster.story()
    cluster.start_worker("w2", "--slots", 1)
    cluster.alive("w2")
    in_turn, _ = _all(cluster, code, "in-turn", IN_TURN, at_once=1)
    print(f"{RUNS} runs: {together:.1f} s together, {IN_TURN} in turn: {in_turn:.1f} s; "
          f"the slot was held for {held:.1f} s of {together:.1f} s")  # fmt: skip


def _all(
    cluster: Cluster, code: Path, name: str, runs: int, *, at_once: int
) -> tuple[float, float]:
    """Seconds until all have ended, and seconds for which they held the slot."""
    began = time.monotonic()
    names = [f"{name}-{n}" for n in range(runs)]
    flags = ("--total-steps", ROWS, "--json")
    submits = [
        cluster.submit("pondering.py:workload", "--run-dir", each, *flags, cwd=code)
        for each in names
    ]
    cluster.until(lambda: len(_there(cluster)) == at_once)
    cluster.until(lambda: not _go_on(submits, cluster, at_once))
    seconds = time.monotonic() - began
    assert [submit.wait() for submit in submits] == [0] * runs, cluster.story()
    summaries = [json.loads(submit.out) for submit in submits]
    assert [each["steps"] for each in summaries] == [ROWS] * runs
    assert [each["restarts"] for each in summaries] == [0] * runs
    for each in names:
        assert_each_row_once(cluster.runs / each, ROWS, 2)
    held = sum(each["usage"]["cpu_seconds_held"] for each in summaries)
    assert 0 < held <= seconds, "one slot cannot be held for longer than there was time"
    return seconds, held


def _there(cluster: Cluster) -> dict[str, Any]:
    """The runs on the node that is alive, with how many actors each has."""
    (node,) = [each for each in cluster.status()[0].values() if each["alive"]]
    found: dict[str, Any] = node["runs"]
    return found


def _go_on(submits: list[Command], cluster: Cluster, at_once: int) -> bool:
    """Whether a run goes on. At no moment at which anybody looks are there too many of anything."""
    assert len(read_pool().holders) <= 1, "two actors on one slot"
    assert len(_there(cluster)) <= at_once
    return any(submit.process.poll() is None for submit in submits)
