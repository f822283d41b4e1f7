"""The node that carries a run is cut off: another process goes on once that one has let go."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from books import assert_each_row_once
from helpers import SUPPORT
from machines import STOP_SECONDS, Machines

pytestmark = [pytest.mark.processes, pytest.mark.long]
RUN, ROWS = "r1", 19_200


def test_it_goes_on_elsewhere_and_each_row_is_learned_from_once(
    cluster: Machines, tmp_path: Path
) -> None:
    shutil.copy(SUPPORT / "placed.py", code := tmp_path / "code")
    for worker, flags in (("w1", ()), ("w2", ("--devices", "cpu:a"))):
        cluster.start_worker(worker, "--stop-seconds", STOP_SECONDS, *flags)
    cluster.alive("w1", "w2")
    asked = ("--device", "pool", "--total-steps", ROWS, "--run-dir", RUN, "--json")
    submit = cluster.submit(code / "placed.py:workload", *asked)
    cluster.until_under_way(RUN)
    cluster.run = RUN
    assert cluster.said_of_run()["carrier"] == "w2"
    cluster.until(cluster.has_saved)
    log = cluster.runs / RUN / "logs" / "run.log"
    with cluster.cut("w2"):
        cluster.alive("w1")
        cluster.until(lambda: "still has its folder" in log.read_text())
        assert cluster.said_of_run()["carrier"] == ""
    cluster.alive("w1", "w2")
    cluster.until(lambda: cluster.said_of_run()["state"] == "running")
    cluster.hurry()
    assert submit.wait() == 0, cluster.story()
    assert json.loads(submit.out)["steps"] == ROWS
    assert_each_row_once(cluster.runs / RUN, ROWS, 2, lives=2)
    cluster.leave_nothing()
