"""Ctrl-C and SIGTERM: once drains and saves, twice stops at once; both leave nothing behind."""

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
from real_runs import Artos, Outcome, shared_memory, updates

from deploy.cli.__main__ import main
from head.records.run_folder import RunFolder

pytestmark = pytest.mark.processes

Start = Callable[..., Artos]


@pytest.fixture
def training(start: Start, home: Path) -> Artos:
    """A run in the folder ``r`` that has made its first updates and will not end by itself."""
    (home / "slow").touch()
    artos = start("run", "counting.py:workload", "--run-dir", "r", "--total-steps", 30000)
    artos.until(lambda: updates(home / "r") > 1)
    return artos


def assert_nothing_left(artos: Artos, run: Path) -> None:
    psutil.wait_procs(artos.survivors(), timeout=PATIENCE)
    assert not artos.survivors()
    assert not shared_memory()
    if run.exists():
        RunFolder.resume(run).close()  # neither locked nor unsaved


@pytest.mark.usefixtures("drawing")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_once(number: signal.Signals, training: Artos, start: Start, home: Path) -> None:
    training.signal(number)
    outcome = training.wait()
    assert outcome.status == 130, outcome.err
    assert "stopping: running work is finished and saved" in outcome.err
    summary = json.loads((home / "r" / "summary.json").read_text())
    assert summary["outcome"] == "interrupted"
    assert (home / "r" / "curve.png").exists()
    assert_nothing_left(training, home / "r")
    (home / "slow").unlink()
    steps = summary["steps"] + 640
    resumed = start("run", "--resume", "r", "--total-steps", steps, "--json").wait()
    assert resumed.status == 0, resumed.err
    assert resumed.summary["steps"] == steps


def test_twice(training: Artos, home: Path) -> None:
    """The first is not enough: an actor that hangs never finishes what is in flight."""
    for process in training.children():
        process.suspend()
    training.signal(signal.SIGINT)
    training.until(lambda: "stopping" in (home / "stderr.txt").read_text())
    training.signal(signal.SIGINT)
    assert training.wait(PATIENCE).status == 130
    assert json.loads((home / "r" / "summary.json").read_text())["outcome"] == "interrupted"
    assert_nothing_left(training, home / "r")


def test_while_registering(start: Start, home: Path) -> None:
    artos = start("run", "counting.py:workload", "--run-dir", "r")
    artos.until(artos.children)
    artos.signal(signal.SIGTERM)
    assert artos.wait(PATIENCE).status == 130
    assert not (home / "r").exists()
    assert_nothing_left(artos, home / "r")


def test_while_members_start(start: Start, home: Path) -> None:
    artos = start("run", "counting.py:workload", "--run-dir", "r")
    artos.until(lambda: artos.member(LEARNER))
    artos.signal(signal.SIGINT)
    assert artos.wait().status == 130
    assert_nothing_left(artos, home / "r")


def test_inline(start: Start, home: Path) -> None:
    artos = start(
        "run", "counting.py:workload", "--run-dir", "r", "--inline", "--total-steps", 30000
    )
    artos.until(lambda: updates(home / "r") > 1)
    artos.signal(signal.SIGINT)
    outcome: Outcome = artos.wait()
    assert outcome.status == 130, outcome.err
    assert_nothing_left(artos, home / "r")


def test_from_another_terminal(
    training: Artos, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a head: `artos status`, `stop` and `logs` find the run by its folder."""
    monkeypatch.chdir(home)
    for name in ("ARTOS_HEAD", "ARTOS_KEYS"):
        monkeypatch.delenv(name, raising=False)

    def asked(*command: str) -> dict[str, Any]:
        assert main([*command, "--json"]) == 0
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return answer

    training.until(lambda: asked("status", "r")["facts"])
    before = asked("status", "r")
    assert (before["state"], before["actors"]) == ("running", 2)
    assert before["facts"]["updates"] > 0
    assert asked("stop", "r")["state"] == "stopping"
    assert training.wait().status == 130
    after = asked("status", "r")
    assert (after["state"], after["outcome"], after["actors"]) == ("done", "interrupted", 0)
    assert after["facts"]["steps"] == after["summary"]["steps"], "its last row is the end"
    assert asked("logs", "r")["text"].splitlines() == [
        "stopping: running work is finished and saved (second signal: at once)",
        f"interrupted after {after['summary']['steps']} steps: r",
    ]
    assert_nothing_left(training, home / "r")
