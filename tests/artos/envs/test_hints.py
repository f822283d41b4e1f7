"""Environments that cannot be had: which package is missing, which name was meant."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import gymnasium as gym
import pytest

from artos.envs import hints
from artos.envs.make import describe
from artos.errors import Refused

OR_OWN = " Or give your own as module:factory."


def refusal(name: str) -> str:
    with pytest.raises(Refused) as refused:
        describe(name)
    return str(refused.value)


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the packages is installed, whatever this machine has."""
    real = importlib.util.find_spec
    absent = {"ale_py", "gymnasium_robotics", "minigrid", "highway_env", "shimmy"}
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name in absent else real(name, *a)
    )
    games = [name for name in gym.registry if str(gym.registry[name].entry_point).startswith("ale")]
    for name in games:
        monkeypatch.delitem(gym.registry, name)
    for name in ("ale_py", "mujoco", "Box2D"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in [
        name for name in sys.modules if re.match(r"gymnasium\.envs\.(mujoco|box2d)", name)
    ]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Pong-v4", "unknown environment 'Pong-v4'. If it is an Atari game: pip install "
         "'artos[atari]', then --env PongNoFrameskip-v4."),
        ("FetchReach-v3", "environment 'FetchReach-v3' needs another package: pip install "
         "'gymnasium-robotics', then --env gymnasium_robotics:FetchReach-v3"),
        ("gymnasium_robotics:FetchReach-v3", "there is no module gymnasium_robotics in this folder"
         ": pip install 'gymnasium-robotics'"),
        ("HalfCheetah-v5", "environment HalfCheetah-v5 needs the extra mujoco: pip install "
         "'artos[mujoco]'"),
        ("HalfCheetah-v2", "HalfCheetah-v2 is no longer maintained: did you mean HalfCheetah-v5?"),
        ("LunarLander-v3", "environment LunarLander-v3 needs the extra box2d: pip install "
         "'artos[box2d]'"),
        ("LunarLander-v2", "did you mean LunarLander-v3?"),
        ("MiniGrid-Empty-5x5-v0", "pip install 'minigrid', then --env minigrid:MiniGrid-Empty-5x5"),
        ("dm_control/cheetah-run-v0", "pip install 'shimmy[dm-control]', then --env shimmy:dm_con"),
        ("procgen:coinrun-v0", "there is no module procgen in this folder"),
        ("bla bla", "unknown environment 'bla bla'."),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("without")
def test_what_to_install(name: str, says: str) -> None:
    assert says in refusal(name)


@pytest.mark.parametrize(
    "name", ["Pong-v4", "Pong-v5", "pong", "PongDeterministic-v4", "Pong-ram-v5", "ALE/Pong-v4"]
)
def test_which_game_was_meant(name: str) -> None:
    pytest.importorskip("ale_py")  # which registers Pong-v4 too, but without preprocessing
    assert "did you mean PongNoFrameskip-v4 or ALE/Pong-v5?" in hints.unknown(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("CartPole-v7", "CartPole-v1"), ("cartpol", "CartPole-v1"), ("LunarLandr", "LunarLander-v3"),
     ("Half-Cheetah-v5", "HalfCheetah-v5")],
)  # fmt: skip
def test_which_environment_was_meant(name: str, meant: str) -> None:
    assert refusal(name) == f"unknown environment {name!r}: did you mean {meant}?{OR_OWN}"


def test_a_module_that_registers_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_tasks.py").write_text(
        "import gymnasium as gym\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "gym.register('OwnPole-v3', CartPoleEnv, max_episode_steps=7)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    try:
        assert describe("own_tasks:OwnPole-v3").actions.kind == "discrete"
        assert "did you mean OwnPole-v3?" in refusal("own_tasks:OwnPole-v4")
    finally:
        gym.registry.pop("OwnPole-v3", None)
        sys.modules.pop("own_tasks", None)
