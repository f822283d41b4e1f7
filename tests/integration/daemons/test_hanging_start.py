"""A run process that hangs before it says anything is killed by the head, which says why."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest
from helpers import PATIENCE

from artos.clock import ManualClock
from artos.system.logging_setup import logging_to
from artos.transport.keys import make_keys
from head.daemon.daemon import HeadDaemon
from head.daemon.options import HeadOptions
from head.daemon.run import Run

pytestmark = pytest.mark.processes


def test_its_run_has_failed_and_nothing_of_it_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hanging_start.py").write_text("import signal\nsignal.pause()\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    make_keys(tmp_path / "keys")
    options = HeadOptions("tcp://127.0.0.1:*", tmp_path / "keys", tmp_path / "runs")
    clock, said = ManualClock(), list[str]()
    with logging_to(said.append), HeadDaemon(options, clock, "hanging_start") as daemon:
        run = Run("r1", {"ticket": "t", "workload": "ppo"}, str(tmp_path / "runs" / "r1"))
        try:
            daemon._scheduler.submit(run)
            daemon.turn()
            clock.advance(1.0)
            daemon.turn()
            there = psutil.Process().children()
            (process,) = (each for each in there if "hanging_start" in each.cmdline())
            clock.advance(3_900.0)
            end = time.monotonic() + PATIENCE
            while not run.over:
                daemon.turn()
                assert time.monotonic() < end, "\n".join(said)
            assert not process.is_running()
            assert (run.outcome, daemon._host.runs) == ("failed", [])
            assert "had not registered after 3,900 s" in run.why
            assert any(run.why in line for line in said)
            assert [*(tmp_path / "runs" / ".head" / "orders").iterdir()] == []
        finally:
            daemon._host.kill_here()
            end = time.monotonic() + PATIENCE
            while daemon._host.runs and time.monotonic() < end:
                daemon.turn()
