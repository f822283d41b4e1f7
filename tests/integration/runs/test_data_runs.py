"""Runs that learn from data sets: beside actors, without any, killed, resumed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT
from inline_runs import commanded
from real_runs import Artos, Outcome, journal, shared_memory, updates
from shown import demonstrate

from artos.runs.checkpoint import read_manifest
from artos.specs.members import Member

ALONE = ("run", "my_demos.py:workload", "--actors", 0, "--run-dir", "run", "--json")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user's folder with demonstrations."""
    for name in ("my_dqn.py", "my_demos.py", "my_reward.py"):
        shutil.copy(ROOT / "docs" / "examples" / name, tmp_path)
    demonstrate(tmp_path / "demos.npz")
    return tmp_path


def test_without_actors_a_run_goes_by_its_updates(home: Path) -> None:
    """It imitates well enough after some hundred of them; evaluations are as ever."""
    ended = commanded(
        home,
        (*ALONE, "--inline", "--set", "total_updates=320", "--set", "evaluate_every=80",
         "--set", "evaluation_episodes=3"),
    )  # fmt: skip
    assert ended.status == 0, ended.err
    summary = ended.summary
    assert (summary["outcome"], summary["ended_by"]) == ("done", "total_updates")
    assert (summary["steps"], summary["updates"], summary["total_steps"]) == (0, 320, 0)
    evaluations = json.loads((home / "run" / "best" / "manifest.json").read_text())["evaluated"]
    assert evaluations["mean_return"] > 300
    lines = [line for line in journal(home / "run") if line.get("by") == "learner"]
    assert len(lines) == 320
    played = commanded(home, ("eval", "run", "--greedy", "--episodes", 2, "--json"))
    assert played.summary["mean_return"] > 300
    assert "it has no actors" in commanded(home, ("simulate", "--journal", "run")).err
    assert shared_memory() == []


def test_beside_actors_live_rows_pace_the_draws(home: Path) -> None:
    """A batch of 64 draws 32 live rows, each of which is drawn 8 times after the first 500."""
    command = ("run", "my_demos.py:workload", "--inline", "--json", "--set", "total_steps=1500")
    ended = commanded(home, command)
    assert ended.status == 0, ended.err
    wanted = 8 * (ended.summary["steps"] - 500) / 32
    assert ended.summary["updates"] == pytest.approx(wanted, abs=12)


def test_a_seed_says_all(home: Path) -> None:
    found = []
    for name in ("one", "two"):
        command = (*ALONE[:-3], "--run-dir", name, "--json", "--inline")
        assert commanded(home, (*command, "--set", "total_updates=20")).status == 0
        folder = home / name / "checkpoint"
        found.append((folder / read_manifest(folder).file).read_bytes())
    assert found[0] == found[1]


def test_it_goes_on_exactly_where_it_stopped(home: Path) -> None:
    """With all of the run in its checkpoint, what samplers of data sets hold is there, too."""
    arrays = {}
    for name, first in (("whole", 48), ("parts", 21)):
        command = (*ALONE[:-3], "--run-dir", name, "--json", "--inline", "--set", "checkpoint=all")
        assert (ended := commanded(home, (*command, "--set", f"total_updates={first}"))).status == 0
        if first < 48:
            again = ("run", "--resume", name, "--json", "--set", "total_updates=48")
            assert (ended := commanded(home, (*again, "--inline"))).status == 0, ended.err
        folder = home / name / "checkpoint"
        arrays[name] = (folder / read_manifest(folder).file).read_bytes()
    assert arrays["whole"] == arrays["parts"]


def test_what_is_wrong_with_a_data_set_is_said_before_a_run(home: Path) -> None:
    (home / "demos.npz").unlink()
    np.savez(home / "demo.npz", observations=np.zeros((3, 4)))
    ended = commanded(home, (*ALONE, "--inline", "--set", "lr=1", "--set", "total_updates=5"))
    assert ended.status == 2
    assert "did you mean demo.npz?" in ended.err
    ended = commanded(home, (*ALONE, "--inline"))
    assert "say total_updates" in ended.err
    flags = ("--set", "demos=demo.npz", "--set", "total_updates=5")
    ended = commanded(home, (*ALONE, "--inline", *flags))
    assert "'observations' is float64" in ended.err
    assert not (home / "run").exists()


def test_from_an_expert_to_other_rewards(home: Path) -> None:
    """The commands of the page, made shorter."""
    (home / "demos.npz").unlink()
    run = ("run", "my_demos.py:workload", "--inline", "--json")
    alone = (*run, "--actors", 0, "--total-updates", 20)
    commands = (
        ("run", "ppo", "--total-steps", 2048, "--run-dir", "runs/expert", "--inline", "--json"),
        ("record", "runs/expert", "-o", "demos.npz", "--episodes", 10, "--greedy", "--json"),
        (*run, "--total-steps", 600),
        (*alone, "--set", "evaluate_every=50"),
        ("rescore", "demos.npz", "my_reward.py:upright", "-o", "upright.npz", "--json"),
        (*alone, "--set", "demos=upright.npz"),
    )
    for command in commands:
        ended = commanded(home, command)
        assert ended.status == 0, ended.err
    rewards = {name: np.load(home / f"{name}.npz")["rewards"] for name in ("demos", "upright")}
    assert rewards["demos"].max() == 1.0
    assert 0 < rewards["upright"].mean() < rewards["demos"].mean()


def test_rows_of_a_run_are_data_for_another(home: Path) -> None:
    command = ("run", "my_demos.py:workload", "--inline", "--json", "--set", "total_steps=800")
    kept = commanded(home, (*command, "--run-dir", "first", "--set", "checkpoint=all"))
    assert kept.status == 0, kept.err
    flags = ("--set", "demos=first", "--set", "total_updates=10")
    ended = commanded(home, (*ALONE, "--inline", *flags))
    assert ended.status == 0, ended.err
    assert ended.summary["updates"] == 10
    again = commanded(
        home, ("rescore", "first", "my_reward.py:upright", "-o", "anew.npz", "--json")
    )
    assert again.status == 0, again.err
    assert 0 < np.load(home / "anew.npz")["rewards"].mean() < 1.0, "the run's own are all 1"


WITHOUT = """
from dataclasses import replace
from my_demos import workload as shown
from my_dqn import DQN, ROW
from artos import Uniform, Workload
from triggers import ReplayTrigger

def workload(total_steps: int) -> Workload:
    made = shown(total_steps=total_steps)
    update = ReplayTrigger(ROW, Uniform(32, n_step=3), ratio=8.0, after=500)
    table = {**made.triggers, "learner.update": update}
    return replace(made, data={}, learner=DQN(lr=1e-3, max_grad_norm=10.0), triggers=table)
"""
"""The same as ``my_demos.py``, but for the demonstrations: as many live rows, as many updates."""


@pytest.mark.long
def test_it_learns_faster_with_demonstrations(home: Path) -> None:
    (home / "without.py").write_text(WITHOUT)
    found = {}
    for name in ("my_demos", "without"):
        run = ("run", f"{name}.py:workload", "--inline", "--json", "--total-steps", 2000)
        ended = commanded(home, run)
        assert ended.status == 0, ended.err
        found[name] = ended.summary
    assert found["my_demos"]["updates"] == found["without"]["updates"]
    assert found["my_demos"]["mean_return_100"] > 1.4 * found["without"]["mean_return_100"]


@pytest.mark.long
@pytest.mark.processes
def test_the_learner_is_killed_and_the_run_is_resumed(
    home: Path, start: Callable[..., Artos], artos: Callable[..., Outcome]
) -> None:
    """The data set's block stays, so the next learner finds it; a resumed run reads it again."""
    running = start(*ALONE, "--set", "total_updates=1000000")
    running.until(lambda: updates(home / "run") > 100)
    before = updates(home / "run")
    running.kill(Member("learner"))
    running.until(lambda: updates(home / "run") > before + 200)
    running.end()
    checkpoint = home / "run" / "checkpoint"
    made = read_manifest(checkpoint).updates
    again = artos("run", "--resume", "run", "--json", "--set", f"total_updates={made + 50}")
    assert again.status == 0, again.err
    assert again.summary["updates"] == made + 50
    assert again.summary["steps"] == 0
