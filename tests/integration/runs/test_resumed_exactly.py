"""A run in one process that is interrupted and resumed equals one that was not, bit for bit."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from compilers import needs_compiler
from helpers import ROOT
from real_runs import checkpointed

from artos.protocol.invocations import Invoke
from artos.specs.members import Member
from deploy.cli.__main__ import main
from deploy.local.inline import Inline
from head.run.coordination.coordinator import Coordinator

PENDULUM = ("--env", "Pendulum-v1", "--set", "hidden=16")
REPLAY = ("--set", "after=96", "--set", "batch=16", "--set", "hidden=16")
ROUNDS = ("--set", "steps=32", "--set", "hidden=16")
EVALUATED = ("--set", "evaluate_every=24", "--set", "evaluation_episodes=2")
CASES = {
    "ppo": (12, 10, ("ppo", *ROUNDS)),
    "ppo-recurrent-normalised": (
        13, 10, ("ppo", *PENDULUM, "--set", "steps=32", "--set", "recurrent=true", "--set",
                 "memory=8", "--set", "normalize=true"),
    ),
    "ppo-recurrent-central": (
        13, 10, ("ppo", *PENDULUM, "--set", "steps=32", "--set", "recurrent=true", "--set",
                 "memory=8", "--set", "inference=central", "--set", "splits=2"),
    ),
    "ppo-ahead": (17, 10, ("ppo", *ROUNDS, "--set", "max_lag=1")),
    "ppo-in-the-midst-of-a-batch": (
        29, 10, ("ppo", *ROUNDS, "--set", "pipeline=full", "--set", "minibatches=1"),
    ),
    "ppo-compiled": (12, 10, ("ppo", *ROUNDS, "--set", "compile=on")),
    "a2c": (16, 12, ("a2c", "--set", "hidden=16")),
    "impala": (14, 12, ("impala", "--set", "hidden=16")),
    "appo": (14, 12, ("appo", *ROUNDS)),
    "trpo": (12, 10, ("trpo", *ROUNDS)),
    "es": (12, 10, ("es", *ROUNDS, "--set", "envs=4", "--set", "normalize=true")),
    "grpo": (14, 10, ("grpo", "--set", "groups=2", "--set", "group=4", "--set", "width=16")),
    "dqn": (100, 120, ("dqn", *REPLAY, "--set", "replay_size=160", *EVALUATED)),
    "dqn-prioritised": (101, 120, ("dqn", *REPLAY, "--set", "replay=prioritised")),
    "dqn-central": (
        100, 120, ("dqn", *REPLAY, "--set", "inference=central", "--set", "splits=2"),
    ),
    "r2d2-central": (
        41, 40, ("r2d2", *REPLAY, "--set", "inference=central", "--set", "splits=2"),
    ),
    "sac-central": (60, 60, ("sac", *PENDULUM, *REPLAY, "--set", "inference=central")),
    "sac": (60, 60, ("sac", *PENDULUM, *REPLAY)),
    "td3": (61, 60, ("td3", *PENDULUM, *REPLAY)),
    "ddpg": (61, 60, ("ddpg", *PENDULUM, *REPLAY)),
    "crossq": (61, 60, ("crossq", *PENDULUM, *REPLAY, "--set", "critic_hidden=16")),
    "rnd": (12, 10, ("rnd", *ROUNDS, "--set", "features=8", "--set", "novelty_hidden=8")),
    "d4pg": (61, 60, ("d4pg", *PENDULUM, *REPLAY)),
    "whole-episodes": (
        40, 8, (f"{ROOT / 'docs' / 'examples' / 'my_reinforce.py'}:workload", "--set", "envs=2"),
    ),
    "dqn-hindsight": (
        100, 120, ("dqn", *REPLAY, "--env", "my_goals:flip", "--set", "n_step=1", "--set",
                   "her=0.8"),
    ),
    "ppo-components": (
        12, 10, ("ppo", *ROUNDS, "--env", "paying:paying", "--env-arg",
                 'components={"far": 1.0, "cost": -0.5, "late": 2.0}'),
    ),
}  # fmt: skip
ENVIRONMENTS = {
    "my_goals.py": ROOT / "docs" / "examples" / "my_goals.py",
    "paying.py": ROOT / "tests" / "artos" / "envs" / "paying_for_tests.py",
}
"""Of users, by the file that they are in."""


def run(name: str, folder: Path, updates: int, *settings: str) -> int:
    """A run in one process that saves all there is to save."""
    size = ("--total-updates", str(updates), "--total-steps", "100000")
    whole = ("--inline", "--seed", "3", "--set", "checkpoint=all")
    return main(["run", name, "--run-dir", str(folder), *whole, *size, *settings])


def assert_same(one: Path, other: Path) -> None:
    """Weights, states of optimisers, episodes and counters are the same."""
    expected, found = checkpointed(one), checkpointed(other)
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, strict=True, err_msg=name)
    assert (other / "episodes.csv").read_text() == (one / "episodes.csv").read_text()
    ends = [json.loads((path / "summary.json").read_text()) for path in (one, other)]
    for name in ("steps", "updates", "episodes", "mean_return_100", "lag_histogram", "rows_lost",
                 "replay_ratio", "restarts", "empty_draws", "evaluations_skipped"):  # fmt: skip
        assert ends[1][name] == ends[0][name], name
    whole, parts = ([each | {"seconds": 0} for each in end["evaluation"]] for end in ends)
    assert parts == whole


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # where it compiles: its own code's
@pytest.mark.parametrize(
    "case",
    [pytest.param(each, marks=needs_compiler if "compiled" in each else ()) for each in CASES],
)
def test_as_if_nothing_had_happened(
    case: str,
    tmp_path: Path,
    interrupt: Callable[[int], None],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for file, path in ENVIRONMENTS.items():
        shutil.copy(path, file)
    at, updates, (name, *settings) = CASES[case]
    assert run(name, tmp_path / "whole", updates, *settings) == 0
    interrupt(at)
    assert run(name, tmp_path / "parts", updates, *settings) == 130
    done = json.loads((tmp_path / "parts" / "summary.json").read_text())
    assert 0 < done["updates"] < updates
    capfd.readouterr()
    assert main(["run", "--resume", str(tmp_path / "parts"), "--trust"]) == 0
    assert f"resumed at step {done['steps']}; everything is restored" in capfd.readouterr().err
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_wherever_and_however_often_it_is_interrupted(
    tmp_path: Path, interrupt: Callable[[int], None]
) -> None:
    """Also while the buffer fills, and with the oldest rows overwritten."""
    _, updates, (name, *settings) = CASES["dqn"]
    assert run(name, tmp_path / "whole", updates, *settings) == 0
    interrupt(1)
    assert run(name, tmp_path / "parts", updates, *settings) == 130
    for count in (3, 5, 4, 30, 41, 26):
        interrupt(count)
        assert main(["run", "--resume", str(tmp_path / "parts")]) == 130
    interrupt(0)
    assert main(["run", "--resume", str(tmp_path / "parts")]) == 0
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_from_what_was_saved_in_the_midst_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupt: Callable[[int], None]
) -> None:
    """A run whose process was killed: its last checkpoint lacks nothing either."""
    monkeypatch.setattr("head.run.recorder._CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("head.run.recorder._CHECKPOINT_SHARE", 1e9)
    _, updates, (name, *settings) = CASES["dqn-prioritised"]
    assert run(name, tmp_path / "whole", updates, *settings) == 0
    saved = tmp_path / "saved"
    run_one: Callable[[Inline, Coordinator, int, Invoke], None] = Inline._run_one
    turns: list[int] = []

    def copied(inline: Inline, coordinator: Coordinator, member: Member, call: Invoke) -> None:
        turns.append(member)
        if len(turns) == 90:
            shutil.copytree(tmp_path / "parts", saved)
            (saved / "run.lock").unlink()
        run_one(inline, coordinator, member, call)

    monkeypatch.setattr(Inline, "_run_one", copied)
    assert run(name, tmp_path / "parts", updates, *settings) == 0
    monkeypatch.setattr(Inline, "_run_one", run_one)
    assert main(["run", "--resume", str(saved)]) == 0
    assert_same(tmp_path / "whole", saved)


def test_a_run_that_had_ended_goes_on_as_if_it_had_been_longer(tmp_path: Path) -> None:
    """Where nothing depends on the share of the run that is over."""
    settings = (*ROUNDS, "--set", "anneal=false")
    assert run("ppo", tmp_path / "whole", 8, *settings) == 0
    assert run("ppo", tmp_path / "parts", 5, *settings) == 0
    assert main(["run", "--resume", str(tmp_path / "parts"), "--total-updates", "8"]) == 0
    assert_same(tmp_path / "whole", tmp_path / "parts")
    updates, name = 60, "dqn"
    assert run(name, tmp_path / "replay", updates, *REPLAY) == 0
    assert main(["run", "--resume", str(tmp_path / "replay"), "--total-updates", "90"]) == 0
    ended = json.loads((tmp_path / "replay" / "summary.json").read_text())
    assert ended["updates"] == 90


def test_a_run_goes_on_for_longer_with_the_buffer_that_it_had(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    begun = ("sac", *PENDULUM, *REPLAY, "--inline", "--set", "checkpoint=all", "--run-dir", run)
    assert main(["run", *begun, "--total-steps", "120"]) == 0
    assert main(["run", "--resume", run, "--total-steps", "160"]) == 0
    found = json.loads((tmp_path / "run" / "config.json").read_text())
    assert found["settings"]["replay_size"] == 120
    steps = json.loads((tmp_path / "run" / "summary.json").read_text())["steps"]
    assert steps == 160


def test_a_setting_that_is_another_one_now_holds(tmp_path: Path) -> None:
    size = ("--set", "steps=16", "--set", "hidden=8", "--set", "envs=2", "--set", "anneal=false")
    assert run("ppo", tmp_path / "run", 2, *size, "--set", "lr=1e-3") == 0
    changed = ("--total-updates", "4", "--set", "lr=1e-4")
    assert main(["run", "--resume", str(tmp_path / "run"), *changed]) == 0
    found = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert found["progress"]["metrics/lr"] == pytest.approx(1e-4)


def test_who_leaves_states_out_is_told_what_is_lost_and_samples_it_again(
    tmp_path: Path, interrupt: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    interrupt(10)  # while rows that were sampled are not learned from yet
    assert run("ppo", tmp_path / "run", 10, *ROUNDS, "--set", "max_lag=1") == 130
    saved = json.loads((tmp_path / "run" / "checkpoint" / "manifest.json").read_text())
    learned = saved["updates"] * 2 * 4 * 32
    assert saved["steps"] > learned
    interrupt(0)
    capsys.readouterr()
    folder = str(tmp_path / "run")
    assert main(["run", "--resume", folder, "--set", "checkpoint=model"]) == 0
    assert f"resumed at step {learned}; not restored:" in capsys.readouterr().err
    ended = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert any("environment states" in each for each in ended["not_restored"])
    assert ended["steps"] >= ended["updates"] * 2 * 4 * 32


class Payload:
    """What runs when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self._marker),)


def test_states_that_others_put_there_are_not_unpickled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    short = ("--inline", "--set", "checkpoint=all", "--set", "steps=32", "--set", "hidden=16")
    assert main(["run", "ppo", *short, "--total-updates", "1", "--run-dir", "run"]) == 0
    manifest = tmp_path / "run" / "checkpoint" / "manifest.json"
    told = json.loads(manifest.read_text())
    evil = pickle.dumps(Payload(tmp_path / "ran"))
    (manifest.parent / told["states"]).write_bytes(evil)
    told["states_sha256"] = hashlib.sha256(evil).hexdigest()
    manifest.write_text(json.dumps(told))
    again = ["run", "--resume", "run", "--total-updates", "2"]
    assert main(again) == 2
    assert "no ARTOS of this account has saved" in capsys.readouterr().err
    assert not (tmp_path / "ran").exists()
    assert main([*again, "--set", "checkpoint=model"]) == 0
    assert not (tmp_path / "ran").exists()


@pytest.mark.long
def test_by_way_of_a_folder_it_is_the_same(
    tmp_path: Path, interrupt: Callable[[int], None]
) -> None:
    """Actors go on before the learner does, and versions of before are none of the run's."""
    at, updates, (name, *settings) = CASES["grpo"]

    def files(folder: str) -> tuple[str, ...]:
        return ("--set", "weights=files", "--set", f"weights_folder={tmp_path / folder}")

    assert run(name, tmp_path / "whole", updates, *settings) == 0
    interrupt(at)
    assert run(name, tmp_path / "parts", updates, *settings, *files("versions")) == 130
    interrupt(7)
    assert main(["run", "--resume", str(tmp_path / "parts"), "--trust"]) == 130
    interrupt(0)
    assert main(["run", "--resume", str(tmp_path / "parts"), "--trust"]) == 0
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_a_resumed_run_pays_for_its_learner_once(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    begun = ["run", "ppo", *ROUNDS, "--set", "checkpoint=all", "--run-dir", run]
    again = ["run", "--resume", run]
    for words, steps in ((begun, 512), (again, 1024), (again, 1536)):
        assert main([*words, "--total-steps", str(steps), "--inline", "--json"]) == 0
    found = json.loads((tmp_path / "run" / "summary.json").read_text())
    wall = found["times_by_member"]["learner"]["wall"]
    assert found["usage"]["device_seconds_held"] == pytest.approx(wall, rel=0.05)
