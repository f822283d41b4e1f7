"""`artos set`: a live run goes on with another value, also its next learner, also when resumed."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from helpers import PATIENCE
from named import LEARNER
from real_runs import TINY, Artos, Outcome, journal, updates

from artos.specs.configuration import Configuration
from head.records.run_folder import RunFolder

pytestmark = pytest.mark.processes

Start = Callable[..., Artos]


@pytest.mark.long
def test_it_outlives_the_learner_and_the_run(start: Start, home: Path) -> None:
    slow, run = home / "slow", home / "run"
    slow.touch()
    begun = ("run", "counting.py:workload", "--run-dir", run, "--total-steps", 9600, "--json")
    artos = start(*begun)
    artos.until(lambda: updates(run) and (run / "checkpoint" / "manifest.json").exists())
    assert asked(home, run, "learner.shown=2") == (0, {"learner.shown": 2.0})
    assert asked(home, run, "learner.shown=-1", "shown=2") == (2, {})
    artos.kill(LEARNER)
    artos.until(lambda: [line for line in journal(run) if "died" in line])
    before = updates(run)
    artos.until(lambda: updates(run) > before)
    artos.children()
    artos.signal(signal.SIGKILL)
    artos.process.wait()
    psutil.wait_procs(artos.survivors(), timeout=PATIENCE)
    slow.unlink()
    outcome = start("run", "--resume", run, "--json").wait()
    assert outcome.status == 0, outcome.err
    assert "as it was set while the run went: learner.shown=2" in outcome.err
    assert outcome.summary["progress"]["metrics/shown"] == 2.0
    assert [line["set"] for line in journal(run) if "set" in line] == [{"learner.shown": 2.0}] * 2


def test_only_a_setting_with_another_value_takes_its_place_on_resuming(
    artos: Callable[..., Outcome], home: Path
) -> None:
    """A head names what a run was submitted with whenever it has the run go on."""
    run, short = home / "run", ("--inline", "--json", "--total-steps")
    once = ("--set", "anneal=false", "--set", "lr=1e-3", *TINY)
    begun = artos("run", "ppo", "--actors", 1, *short, 64, *once, "--run-dir", run)
    assert begun.status == 0, begun.err
    with RunFolder.resume(run) as folder:
        folder.keep(Configuration(1, {"learner.lr": 1e-4}))
    for steps, given, lr in ((128, "1e-3", 1e-4), (192, "1e-2", 1e-2), (256, "1e-2", 1e-2)):
        outcome = artos("run", "--resume", run, *short, steps, "--set", f"lr={given}")
        assert outcome.summary["progress"]["metrics/lr"] == lr, outcome.err


def asked(home: Path, run: Path, *settings: str) -> tuple[int, dict[str, Any]]:
    """The exit status of `artos set`, and what it says holds now."""
    folder = home / "asking"
    folder.mkdir(exist_ok=True)
    outcome = Artos(folder, ("set", run, *settings, "--json")).wait()
    return outcome.status, json.loads(outcome.out)["settings"] if outcome.status == 0 else {}
