"""Every command takes ``--json``, and prints nothing to its output but JSON."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import ROOT, SUPPORT

from deploy.cli.__main__ import main
from evaluation.core import registry
from evaluation.core.benchmark import Benchmark
from evaluation.core.report import Results
from head.records.run_folder import RunFolder

README, COUNTING = ROOT / "README.md", SUPPORT / "counting.py"
WORKLOAD = ("counting.py:workload", "--total-steps", "64")
LEARNED = ("--total-steps", "1024", "--run-dir", "runs/learned", "--inline", "--json")
HERE: dict[str, tuple[str, ...]] = {
    "run": (*WORKLOAD, "--inline"),
    "eval": ("learned", "--episodes", "2"),
    "record": ("learned", "--episodes", "1"),
    "rescore": ("demos.npz", "rewards.py:none"),
    "explain": WORKLOAD,
    "check": ("CartPole-v1",),
    "doctor": (),
    "clean": (),
    "keys": ("keys",),
    "list": (),
    "status": (),
    "top": (),
    "logs": ("over",),
    "stop": ("over",),
    "bench": ("toy",),
    "pool": (),
    "simulate": ("--mix", str(ROOT / "docs" / "examples" / "mix.toml"), "--slots", "64"),
    "usage": (),
    "trace": ("learned",),
    "metrics": (),
    "why": ("learned",),
    "replay": ("recorded",),
    "plot": ("learned",),
    "report": ("learned",),
}
"""Commands that are to be had without a cluster."""
LONG = ("simulate", "record", "plot")
KEYS = {"why": {"bottleneck", "advice", "shares"}}
"""What scripts go by."""
OF_A_CLUSTER = {
    "submit",
    "branch",
    "drain",
    "undrain",
    "scale",
    "set",
    "get",
    "sweep",
    "up",
    "down",
    "track",
}
"""What these print is parsed in tests of daemons, sweeps, branches, engines and trackers only."""
DAEMONS = {"head", "worker"}
SERVERS = {"dashboard"}
"""What these print is parsed in their own tests."""
OTHERS = {"setup", "completion"}
"""They print no result of their own, as the README says."""


def said(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with a run that is over, and has learned nothing."""
    for name in ("ARTOS_HEAD", "ARTOS_KEYS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    shutil.copy(COUNTING, tmp_path)
    RunFolder.create(tmp_path / "runs" / "over", {}).close()
    return tmp_path


def test_no_command_lacks_it(capsys: pytest.CaptureFixture[str]) -> None:
    commands = set(re.findall(r"^    ([a-z]+)(?: |$)", said("", capsys), re.MULTILINE)) - OTHERS
    assert commands == {*HERE, *OF_A_CLUSTER, *DAEMONS, *SERVERS}
    lacking = [command for command in commands if "--json" not in said(command, capsys)]
    assert lacking == []


def test_the_readme_says_which_commands_do_not_take_it(capsys: pytest.CaptureFixture[str]) -> None:
    sentence = " ".join(README.read_text().partition("All commands take `--json`")[2].split())
    exceptions = set(re.findall(r"`(\w+)`", sentence.partition(":")[0]))
    assert exceptions == OTHERS
    assert all("--json" not in said(command, capsys) for command in exceptions)


@pytest.mark.parametrize(
    "command",
    [pytest.param(each, marks=[pytest.mark.long] * (each in LONG)) for each in HERE],
)
def test_what_is_printed_is_json(
    command: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(registry.BENCHMARKS, "toy", Benchmark(toy))
    # The command becomes this program; a test must not.
    monkeypatch.setattr(os, "execv", lambda _, words: sys.exit(registry.main(words[4:])))
    if command == "rescore":
        (home / "rewards.py").write_text("def none(rows):\n    return 0 * rows['rewards']\n")
        rows = {"rewards": np.ones(2), "valid": np.ones(2, bool), "ages": np.arange(2)}
        np.savez(home / "demos.npz", **rows)
    if command in ("eval", "record", "trace", "why", "plot", "report"):
        assert main(["run", "ppo", *LEARNED]) == 0
        capsys.readouterr()
    if command == "replay":
        words = ["run", "ppo", "--env", "CartPole-v1", "--total-steps", "512", "--json"]
        assert main([*words, "--run-dir", "runs/recorded"]) == 0
        capsys.readouterr()
    try:
        status = main([command, *HERE[command], "--json"])
    except SystemExit as ended:
        status = ended.code
    assert status == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    assert found.keys() >= KEYS.get(command, set())


def toy(repeats: int, quick: bool, say: Callable[[str], None]) -> Results:
    results = Results("toy", repeats)
    results.add("speed", "s", 1.0)
    return results


@pytest.mark.parametrize("daemon", sorted(DAEMONS))
def test_what_a_daemon_says_is_an_object_a_line(
    daemon: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "keys"]) == 0
    capsys.readouterr()

    log = logging.getLogger(f"deploy.{daemon}_daemon")

    class Talking:
        endpoint = "tcp://127.0.0.1:1"

        def __init__(self, options: Any) -> None: ...

        def run(self, *_: object) -> None:
            log.info("hello")
            log.warning("two\nlines of %s", "\x1b[31mred")

        def __enter__(self) -> Talking:
            return self

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr("head.daemon.daemon.HeadDaemon", Talking)
    monkeypatch.setattr("workers.daemon.daemon.WorkerDaemon", Talking)
    address = "--listen" if daemon == "head" else "--head"
    assert main([daemon, address, "tcp://127.0.0.1:7", "--keys", "keys", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["text"] for line in lines] == ["hello", "two\nlines of \x1b[31mred"]
    assert all(line["time"].endswith("+00:00") for line in lines)
