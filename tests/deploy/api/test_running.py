"""Runs from Python: results, progress, refusals; the run is a process that ends with its caller."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import PATIENCE, ROOT

import artos
from artos.errors import Refused, RunExists
from artos.protocol.views import Status
from deploy.api import running
from deploy.api.cluster import Cluster
from deploy.api.running import Result
from deploy.local.local_runs import LocalRuns
from head.records.run_folder import RunFolder
from triggers.algorithms.ppo import workload as ppo

pytestmark = pytest.mark.processes

SCRIPT = """
print("begins")
result = artos.run(workload, total_steps=2048, actors=1, run_dir="mine")
print(result.outcome, result.steps, result.seed)
"""


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def test_the_result_says_how_it_ended_and_loads_what_it_trained() -> None:
    seen: list[Status] = []
    result = artos.run(
        "ppo", env="CartPole-v1", total_steps=2_048, inline=True, on_progress=seen.append
    )
    assert (result.outcome, result.steps) == ("done", 2_048)
    assert result.mean_return_100 is not None
    assert result.folder == Path("runs/ppo-CartPole-v1-seed1-1")
    assert result.updates == json.loads((result.folder / "summary.json").read_text())["updates"]
    assert all(one.steps <= two.steps for one, two in itertools.pairwise(seen))
    assert result.load().act is not None
    with pytest.raises(AttributeError, match="did you mean steps"):
        _ = result.step


def test_what_is_refused_is_refused_with_its_faults() -> None:
    with pytest.raises(Refused) as caught:
        artos.run("ppo", gama=1, lambd=2, run_dir="none")
    assert len(caught.value.faults) == 2
    assert "gama" in caught.value.faults[0]
    assert "lambd" in caught.value.faults[1]
    assert not Path("none").exists()


def test_a_folder_that_holds_a_run_is_not_taken() -> None:
    artos.run("ppo", env="CartPole-v1", total_steps=512, inline=True, run_dir="mine")
    told: list[Status] = []
    with pytest.raises(RunExists, match="already holds a run"):
        artos.run("ppo", total_steps=512, inline=True, run_dir="mine", on_progress=told.append)
    with RunFolder.create(Path("live"), {}), pytest.raises(RunExists, match="used by a live run"):
        artos.run("ppo", total_steps=512, run_dir="live", on_progress=told.append)
    assert not told, "that is the progress of another run"


def test_what_watching_it_raises_stops_the_run_which_saves() -> None:
    class Pruned(Exception):
        pass

    def watch(status: Status) -> None:
        if status.updates:
            raise Pruned

    with pytest.raises(Pruned):
        artos.run(
            "ppo", env="CartPole-v1", total_steps=100_000_000, inline=True, run_dir="pruned",
            on_progress=watch,
        )  # fmt: skip
    (run,) = LocalRuns(Path.cwd()).list_runs()
    assert (run.name, run.outcome) == ("pruned", "interrupted")


@pytest.mark.long
def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    shutil.copy(ROOT / "docs" / "examples" / "my_algo.py", script)
    with script.open("a") as file:
        file.write(f"\n\nimport artos\n{SCRIPT}")
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["begins", "done 2048 1"]


def test_a_result_is_plain_data() -> None:
    result = Result(Path("runs/x"), {"outcome": "done", "steps": 3, "mean_return_100": None})
    assert (result.outcome, result.steps, result.mean_return_100) == ("done", 3, None)


@pytest.mark.parametrize(
    ("mean", "told"), [(None, "no episode has ended"), (123.456, "mean return 123.5")]
)
def test_a_result_is_shown_on_a_line(mean: float | None, told: str) -> None:
    summary = {"outcome": "done", "steps": 4096, "mean_return_100": mean, "times": {"bind": 1.0}}
    assert repr(Result(Path("runs/x"), summary)) == f"<Result runs/x: done, 4,096 steps, {told}>"


def test_an_environment_that_is_no_name_is_refused() -> None:
    def make_mine() -> None:
        """One that stands in no file."""

    with pytest.raises(Refused, match=r"%%writefile my_env\.py.* 'my_env:make_mine'"):
        artos.run("ppo", env=make_mine)  # type: ignore[arg-type]
    with pytest.raises(Refused, match="'my_env:make_mine'"):
        ppo(env=make_mine)  # type: ignore[arg-type]
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"a": object()}, "only plain data"),
        ([1], "give arguments by name"),
        ("a=1", "give arguments by name"),
        ({1: 2}, "give arguments by name"),
        ({"a": "\ud800"}, "only plain data"),
    ],
)
def test_arguments_of_an_environment_that_are_no_plain_data_are_refused(
    given: Any, told: str
) -> None:
    with pytest.raises(Refused, match=told):
        artos.run("ppo", env="CartPole-v1", env_args=given)
    assert not Path("runs").exists()


def test_all_wrong_arguments_are_told_at_once() -> None:
    wrong: dict[str, Any] = {
        "env": print, "seed": 1.5, "run_dir": 3, "inline": "no", "on_progress": 1, "track": 3,
        "env_args": [1], "deadline": -1, "device": "cpu\0", "gamma": "\ud800",
    }  # fmt: skip
    with pytest.raises(Refused) as caught:
        artos.run(Path, **wrong)
    told = [fault.partition(" ")[0].strip(":") for fault in caught.value.faults]
    assert sorted(told) == sorted(["Path", "environment", *wrong.keys() - {"env"}])
    assert not Path("runs").exists()


def test_a_cluster_is_told_of_no_wrong_arguments() -> None:
    unconnected = object.__new__(Cluster)
    wrong: dict[str, Any] = {"seed": "1", "run_dir": 3, "where": "avx512", "packages": 4}
    with pytest.raises(Refused) as caught:
        unconnected.submit("ppo", env=print, **wrong)  # type: ignore[arg-type]
    told = [fault.partition(" ")[0].strip(":") for fault in caught.value.faults]
    assert told == ["environment", *wrong]


def test_what_is_none_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []

    def start(words: list[str], **_: Any) -> None:
        started.append(words)
        raise InterruptedError

    monkeypatch.setattr(running.subprocess, "Popen", start)
    with pytest.raises(InterruptedError):
        artos.run("ppo", env=None, env_args=None, track=None, deadline=None, run_dir="mine")
    assert started[0][-4:] == ["--run-dir", "mine", "--seed", "1"]
