"""``config.json`` says all that a run was made of; a run that goes on keeps to it."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from artos.system.signals import StopRequests
from deploy.cli.__main__ import main
from deploy.local.run import run
from head.records.run_folder import RunFolder
from head.run.preparation import resumed, stored_request
from head.run.request import Request

pytestmark = pytest.mark.processes

BUILDER = """
from triggers.algorithms.ppo import workload as ppo


def workload(lr: float = {lr}, hidden: tuple[int, ...] = (8,), total_steps: int = 64, seen=print):
    return ppo("CartPole-v1", 1, total_steps, envs=1, steps=16, hidden=hidden, lr=lr, anneal=False)
"""


@pytest.fixture
def user(tmp_path: Path) -> Callable[[float], Path]:
    """Writes a user's workload with this learning rate as default."""

    def write(lr: float) -> Path:
        (tmp_path / "own.py").write_text(BUILDER.format(lr=lr))
        sys.modules.pop("artos_user_own", None)
        return tmp_path

    return write


def config_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return found


def last_lr(folder: Path) -> str:
    summary = json.loads((folder / "summary.json").read_text())
    return str(summary["progress"]["metrics/lr"])


def test_a_run_that_goes_on_keeps_its_settings_whatever_the_defaults_are_now(
    user: Callable[[float], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    home = user(0.25)
    folder = home / "r"
    run(Request("own.py:workload", {}, 1, folder, inline=True, quiet=True, folder=home))
    first = config_of(folder)
    settings = first["settings"]
    kept = {name: settings[name] for name in ("lr", "hidden", "total_steps")}
    assert kept == {"lr": 0.25, "hidden": [8], "total_steps": 64}
    assert settings["park"] == "auto"
    assert "seen" not in settings, "a function is no plain data"
    user(0.5)
    first["versions"]["numpy"] = "0.1"
    (folder / "config.json").write_text(json.dumps(first))
    assert main(["run", "--trust", "--resume", str(folder), "--total-steps", "96", "--json"]) == 0
    assert f"numpy is {version('numpy')}, the run began with 0.1" in capsys.readouterr().err
    assert last_lr(folder) == "0.25"
    now = config_of(folder)
    assert now["settings"] == settings | {"total_steps": 96}
    assert (first["plan"]["total_steps"], now["plan"]["total_steps"]) == (64, 96)
    assert [resumed["versions"]["numpy"] for resumed in now["resumed"]] == [version("numpy")]
    assert now["origin"] == first["origin"]


def test_a_run_that_goes_on_has_not_ended(user: Callable[[float], Path]) -> None:
    """One that is killed then has no summary of a part before that would speak for it."""
    home = user(0.25)
    folder = home / "r"
    asked = Request("own.py:workload", {}, 1, folder, inline=True, quiet=True, folder=home)
    assert run(asked).outcome == "done"
    assert (folder / "summary.json").exists()
    with StopRequests() as requests, RunFolder.resume(folder) as there:
        again = stored_request(there, {"total_steps": 96}, quiet=True)
        with resumed(again, there, requests, None):
            assert not (folder / "summary.json").exists()


def test_the_config_alone_makes_the_same_run_again(user: Callable[[float], Path]) -> None:
    home = user(0.25)
    asked = Request("own.py:workload", {"hidden": "[4]"}, 7, home / "a", inline=True, quiet=True)
    run(asked.__class__(**{**vars(asked), "folder": home}))
    stored = config_of(home / "a")
    user(0.5)
    names = ("workload", "settings", "seed", "inline", "deadline")
    kept = {name: stored[name] for name in names}
    run(Request(**kept, run_dir=home / "b", folder=home, quiet=True))
    sums = [
        json.loads((home / name / "checkpoint" / "manifest.json").read_text())["sha256"]
        for name in ("a", "b")
    ]
    assert sums[0] == sums[1]


def test_it_has_versions_host_command_and_what_was_set(
    artos: Callable[..., Any], home: Path
) -> None:
    command = ("run", "ppo", "--total-steps", "64", "--set", "envs=1", "--set", "steps=32")
    assert artos(*command, "--run-dir", "r", "--actors", "1").status == 0
    config = config_of(home / "r")
    expected = {"lr": 1e-3, "steps": 32, "total_steps": 64, "actors": 1, "env": "CartPole-v1"}
    assert {name: config["settings"][name] for name in expected} == expected
    assert config["versions"].items() >= {
        "artos": version("artos"), "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "gymnasium", "numpy")},
    }.items()  # fmt: skip
    assert config["host"]["name"] == config["origin"]["host"] == platform.node()
    assert " ".join(command) in config["origin"]["command"]
