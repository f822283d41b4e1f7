"""What scripts may rely on: flags, exit status, files and fields; determinism; resuming."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from named import LEARNER, acting
from real_runs import TINY, Artos, Outcome, journal, shared_memory, updates

from deploy.cli.__main__ import main
from deploy.local.run import run
from head.run.request import Request

pytestmark = pytest.mark.processes

FIELDS = [
    "algorithm", "env", "seed", "steps", "updates", "seconds", "steps_per_second",
    "mean_return_100", "lag_mean", "lag_max", "restarts", "rows_lost",
]  # fmt: skip


def weights(folder: Path) -> str:
    """The checksum of the checkpoint's arrays."""
    found: str = json.loads((folder / "checkpoint" / "manifest.json").read_text())["sha256"]
    return found


def inline(home: Path, name: str, seed: int = 3, **settings: Any) -> Path:
    """A short inline run; returns its folder."""
    fixed = {"total_steps": 640, "envs": 2, "steps": 32}
    folder = home / name
    run(Request("ppo", {**fixed, **settings}, seed, folder, inline=True, quiet=True, folder=home))
    return folder


@pytest.mark.usefixtures("drawing")
def test_command_line_and_files(artos: Callable[..., Outcome], home: Path) -> None:
    outcome = artos(
        "run", "ppo", "--env", "CartPole-v1", "--actors", 2, "--total-steps", 640, "--seed", 5,
        "--run-dir", "r", "--json", *TINY,
    )  # fmt: skip
    assert outcome.status == 0, outcome.err
    assert list(outcome.summary)[: len(FIELDS)] == FIELDS
    assert not outcome.err
    expected = {"algorithm": "ppo", "env": "CartPole-v1", "seed": 5, "steps": 640, "updates": 20}
    assert outcome.summary.items() >= expected.items()
    folder = home / "r"
    assert json.loads((folder / "summary.json").read_text()) == outcome.summary
    for name in ("config.json", "progress.csv", "episodes.csv", "curve.png", "journal.jsonl"):
        assert (folder / name).stat().st_size, name
    assert list((folder / "events").glob("events.out.tfevents.*"))
    assert list((folder / "checkpoint").glob("*.safetensors"))
    firings = [line["firing"] for line in journal(folder) if "firing" in line]
    assert firings == sorted(set(firings))
    assert not shared_memory()


def test_inline_is_deterministic_by_seed(home: Path) -> None:
    first, same, other = inline(home, "a"), inline(home, "b"), inline(home, "c", seed=4)
    assert weights(first) == weights(same) != weights(other)


@pytest.mark.long
def test_processes_on_policy_are_deterministic_by_seed(
    artos: Callable[..., Outcome], home: Path
) -> None:
    """With max_lag 0 sampling and learning alternate, so timing decides nothing."""
    for name in ("a", "b"):
        assert artos("run", "ppo", "--run-dir", name, "--total-steps", 3000).status == 0
    assert (
        weights(home / "a")
        == weights(home / "b")
        == weights(inline(home, "c", seed=1, total_steps=3000, envs=4, steps=128))
    )


def test_resume_with_more_steps(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = inline(home, "r", actors=1)
    before = json.loads((folder / "summary.json").read_text())
    (folder / "images-0").mkdir()  # as a machine that lost its power leaves it
    assert main(["run", "--resume", str(folder), "--total-steps", "1280", "--json"]) == 0
    after = json.loads(capsys.readouterr().out)
    assert (before["steps"], after["steps"]) == (640, 1280)
    assert (before["updates"], after["updates"]) == (10, 20)
    assert (
        "experience sampled but not yet learned from: it is sampled again" in after["not_restored"]
    )
    assert not any("replay" in lost for lost in after["not_restored"])
    last = (folder / "progress.csv").read_text().splitlines()[-1]
    assert str(after["progress"]["steps"]) == last.split(",")[3] == "1280"
    assert not (folder / "images-0").exists()
    assert json.loads((folder / "config.json").read_text())["settings"]["total_steps"] == 1280


def test_a_run_that_is_done_is_not_resumed_for_nothing(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it has written stays as it is: no empty part is added."""
    folder = inline(home, "r", total_steps=128)
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    for more in ((), ("--total-steps", "128"), ("--total-steps", "64")):
        assert main(["run", "--resume", str(folder), *more]) == 2
        said = "r is done, after 128 steps: give it more, as with --total-steps 256"
        assert said in capsys.readouterr().err
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
    assert not shared_memory()


@pytest.mark.parametrize("harm", ["truncate", "foreign", "other network", "manifest", "other env"])
def test_checkpoints_that_do_not_fit(
    harm: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = inline(home, "r", total_steps=128)
    file = next((folder / "checkpoint").glob("*.safetensors"))
    arguments = ["run", "--resume", str(folder), "--json", "--total-steps", "256"]
    if harm == "truncate":
        file.write_bytes(file.read_bytes()[:-100])
    elif harm == "foreign":
        shutil.copy(__file__, file)
    elif harm == "manifest":
        (folder / "checkpoint" / "manifest.json").write_text('{"by": "someone else"}')
    elif harm == "other network":
        arguments += ["--set", "hidden=[8]"]
    else:
        arguments += ["--env", "Acrobot-v1"]
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert not said.out
    assert "the checkpoint in" in said.err
    assert not shared_memory()


def test_second_run_in_the_same_folder(
    start: Callable[..., Artos], artos: Callable[..., Outcome], home: Path
) -> None:
    (home / "slow").touch()
    artos("clean")  # what other tests have left
    command = ("run", "counting.py:workload", "--run-dir", "r", "--total-steps", 32_000)
    first = start(*command)
    first.until((home / "r" / "checkpoint" / "manifest.json").exists)
    live = shared_memory()
    during = start(*command, "--inline").wait()
    assert (during.status, "is used by a live run" in during.err) == (2, True), during.err
    resumed = start("run", "--resume", "r").wait()
    assert (
        resumed.status,
        "is used by a live run: choose another --run-dir or stop that" in resumed.err,
    ) == (2, True), resumed.err
    cleaned = artos("clean", "--json")
    assert cleaned.summary == {"removed": []}
    assert shared_memory() == live
    first.end()
    assert artos("clean", "--json").summary["removed"]
    assert not shared_memory()
    after = start(*command, "--inline").wait()
    assert (after.status, "already holds a run" in after.err) == (2, True), after.err


@pytest.mark.long
@pytest.mark.parametrize(("workload", "needs"), [("ppo", True), ("counting.py:workload", False)])
def test_only_members_load_torch_and_only_if_they_need_it(
    workload: str, needs: bool, start: Callable[..., Artos], home: Path
) -> None:
    run = start("run", workload, "--run-dir", "r", "--total-steps", 10_000_000)
    run.until(lambda: updates(home / "r"))
    assert not loads_torch(run.process)
    for each in (LEARNER, *acting(0, 1)):
        run.until(lambda: run.member(each))  # noqa: B023
        member = run.member(each)
        assert member is not None
        assert loads_torch(member) == needs
    run.signal(signal.SIGINT)
    assert run.wait().status == 130


def loads_torch(process: psutil.Process | subprocess.Popen[bytes]) -> bool:
    return "libtorch" in Path(f"/proc/{process.pid}/maps").read_text()


def test_killed_before_its_first_checkpoint(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = inline(home, "r", total_steps=128)
    shutil.rmtree(folder / "checkpoint")
    assert main(["run", "--resume", str(folder)]) == 2
    assert "ended before its first checkpoint" in capsys.readouterr().err
