"""``artos check`` and ``--env-arg``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import psutil
import pytest

from artos.errors import DeadlineExceeded, Refused
from artos.runs.exit_status import ExitStatus
from artos.runtime.examination import examine
from artos.specs.address import parted
from deploy.cli.__main__ import main
from deploy.cli.check import examined, text

OWN = """
import os, signal, time
import gymnasium as gym
import numpy as np
from gymnasium import spaces

class Own(gym.Env):
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, drawn):
        self.drawn, self.seen = drawn, np.zeros(2, np.float32)
        self.observation_space = spaces.Dict(
            {"numbers": spaces.Box(-9, 9, (2,), np.float32), "words": spaces.Text(4)})

    def show(self):
        self.seen[0] = self.np_random.random()
        self.seen[1] = np.random.random() if self.drawn else 0
        return {"numbers": self.seen, "words": "abc"}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.show(), {}

    def step(self, action):
        self.kept = action
        return self.show(), 1.0, False, False, {}

def make(drawn=False): return Own(drawn)

def hang(): time.sleep(600)

def breaks_off():
    with open("examiner", "w") as file: file.write(str(os.getpid()))
    os.kill(os.getppid(), signal.SIGINT)
    hang()

def goals():
    made, few = Own(False), spaces.Box(-9, 9, (2,), np.float32)
    names = ("observation", "achieved_goal", "desired_goal")
    made.observation_space = spaces.Dict({name: few for name in names})
    made.show = lambda: {name: np.zeros(2, np.float32) for name in names}
    return made

class Late(gym.Env):
    action_space = spaces.Discrete(2)

    def __init__(self, space, show):
        self.observation_space, self.show = space, show

    def reset(self, *, seed=None, options=None):
        self.step_number = 0
        return self.show(0), {}

    def step(self, action):
        self.step_number += 1
        return self.show(self.step_number), 1.0, False, False, {}

def late():
    far = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    space = spaces.Tuple([spaces.Discrete(2), far])
    return Late(space, lambda n: (n % 2, np.array([1.7e9 + n, n / 7])))

def counted():
    return Late(spaces.Box(0, 10**12, (1,), np.int64), lambda n: np.array([n]))

def beyond():
    return Late(spaces.Box(-1, 1, (2,), np.float64), lambda n: np.array([0, n / 100]))

def wrong():
    made = Own(False)
    made.observation_space = spaces.Sequence(spaces.Discrete(2))
    made.action_space = spaces.Text(3)
    return made
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_suite.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)


def test_what_an_environment_shows_and_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "own_suite:make", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["spec"]["left_out"] == ["observations.words"]
    assert found["networks"] == {"observations.numbers": "flat, 2 inputs"}
    assert found["differs"] == ""
    assert found["compared"] > 0
    assert found["bare"] > 0 < found["stepped"]


def test_what_its_seed_does_not_decide(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "own_suite:make", "--env-arg", "drawn=true"]) == 0
    said = capsys.readouterr().out
    assert "own_suite:make(drawn=True)" in said
    assert "not decided by its seed: reset again, observations.numbers differ after 0 steps" in said
    assert "observations.words: text, left out" in said


@pytest.mark.parametrize(
    "command", [("check",), pytest.param(("explain", "ppo", "--env"), marks=pytest.mark.long)]
)
def test_goals_are_seen_and_may_be_relabelled(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "own_suite:goals"]) == 0
    said = capsys.readouterr().out
    assert "goals: parts like any other, which the policy sees; algorithms that" in said
    assert "relabel a share of them afterwards with her=0.8" in said
    assert '"Goals"' in said
    assert main([*command, "own_suite:make"]) == 0
    assert "goals" not in capsys.readouterr().out


@pytest.mark.parametrize("own", ["CartPole", "vector:CartPole-v1"])
def test_registered_ones(own: str) -> None:
    found = examine(own, 0.05)
    assert found.spec.name.endswith("CartPole-v1")
    assert (found.own_resets == "NextStep") == own.startswith("vector:")
    assert found.differs == ""
    assert found.reuses == ()
    assert "one of 2 actions" in text(found)


def test_an_address_without_a_version_is_told_in_a_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = "CartPole is CartPole-v1, its newest version\n"
    assert main(["check", "CartPole"]) == 0
    assert capsys.readouterr().out.endswith(f"note: {line}")
    words = ["--env", "CartPole", "--total-steps", "1024", "--inline", "--json"]
    assert main(["run", "ppo", *words, "--run-dir", "r"]) == 0
    assert capsys.readouterr().err.count(line) == 1
    assert main(["run", "--resume", "r", "--total-steps", "2048", "--json"]) == 0
    assert "newest version" not in capsys.readouterr().err
    assert main(["explain", "ppo", "--env", "CartPole-v1"]) == 0
    assert "newest version" not in capsys.readouterr().out


def test_what_float32_does_not_tell_apart() -> None:
    found = examine("own_suite:late", 1.0)
    assert list(found.rounded) == ["observations.1"]
    assert re.search("float32.* observations.1, 200 different ones are [23] at .0.; l", text(found))
    assert found.notes == ()
    (note,) = examine("own_suite:counted", 0.2).notes
    assert "int64 (1,) with numbers up to 1e+12" in note


def test_all_faults_at_once_with_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "own_suite:wrong"]) == 2
    said = capsys.readouterr().err
    assert "observations is a Sequence space" in said
    assert "actions are Text" in said


@pytest.mark.long
def test_a_deadline_names_what_was_under_way() -> None:
    with pytest.raises(DeadlineExceeded, match="own_suite:hang: making the environment"):
        examined("own_suite:hang", 30)


def test_arguments_are_recorded_and_come_back(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--env", "CartPole", "--env-arg", "sutton_barto_reward=true"]
    done = main(
        ["run", "ppo", *words, "--total-steps", "600", "--inline", "--run-dir", "r", "--json"]
    )
    assert done == 0
    capsys.readouterr()
    config = json.loads(Path("r/config.json").read_text())
    assert parted(config["env"]) == ("CartPole-v1", {"sutton_barto_reward": True})
    assert config["settings"]["env"] == config["env"]  # whichever is the newest when it goes on
    assert main(["eval", "r", "--episodes", "2", "--json"]) == 0
    played = json.loads(capsys.readouterr().out)
    assert max(played["returns"]) <= 0  # without the argument each step pays 1
    assert main(["run", "--resume", "r", "--total-steps", "1200", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["env"] == config["env"]
    assert main(["eval", "r", "--env-arg", "sutton_barto_reward=false", "--json"]) == 0
    assert min(json.loads(capsys.readouterr().out.split("\n", 0)[0])["returns"]) > 0


def test_what_is_no_pair_and_what_nobody_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "ppo", "--env-arg", "x"]) == 2
    assert "--env-arg 'x': write KEY=VALUE" in capsys.readouterr().err
    assert main(["explain", "ppo", "--env-arg", "nope=1"]) == 2
    assert "takes no argument 'nope'" in capsys.readouterr().err


def test_a_workload_that_says_its_environment_itself(capsys: pytest.CaptureFixture[str]) -> None:
    Path("fixed.py").write_text("def table(): raise RuntimeError\n")
    assert main(["explain", "fixed.py:table", "--env-arg", "a=1"]) == 2
    assert "RolloutActor(..., env_args={...})" in capsys.readouterr().err


def test_ctrl_c_ends_the_examination_too(capsys: pytest.CaptureFixture[str]) -> None:
    """The environment presses it, in the process that examines it."""
    assert main(["check", "own_suite:breaks_off"]) == ExitStatus.INTERRUPTED
    assert capsys.readouterr() == ("", "artos: stopped at once\n")
    assert not psutil.pid_exists(int(Path("examiner").read_text()))


def test_refused_as_text() -> None:
    with pytest.raises(Refused, match="unknown environment"):
        examined("Nope-v1", 60)


def test_what_goes_beyond_its_bounds_is_told() -> None:
    (note,) = examine("own_suite:beyond", 1.0).notes
    assert re.fullmatch("observations shows [0-9.]+, beyond what its space says: repair.*", note)
