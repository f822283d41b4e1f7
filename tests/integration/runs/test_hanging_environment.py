"""An environment that never answers at registration is named once the deadline has passed."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from real_runs import Artos, Outcome, shared_memory

pytestmark = pytest.mark.processes

ENVIRONMENT = """
import pathlib, time
import gymnasium as gym
import numpy as np

def never():
    pathlib.Path("asked").touch()
    time.sleep(10_000)

class Slow(gym.Env):
    observation_space = gym.spaces.Box(0, 1, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def step(self, action):
        return np.zeros(3, np.float32), 0.0, False, False, {}

class Reset(Slow):
    def reset(self, *, seed=None, options=None):
        never()

class Step(Slow):
    def step(self, action):
        never()

def make():
    never()
"""


@pytest.fixture
def slow(home: Path) -> Path:
    (home / "slow.py").write_text(ENVIRONMENT)
    return home


@pytest.mark.parametrize(
    ("factory", "call"),
    [
        ("Step", "step"),
        pytest.param("Reset", "reset", marks=pytest.mark.long),
        pytest.param("make", "being made", marks=pytest.mark.long),
    ],
)
def test_it_is_named_with_the_call(
    factory: str, call: str, slow: Path, artos: Callable[..., Outcome]
) -> None:
    ended = artos("run", "ppo", "--env", f"slow:{factory}", "--deadline", 4, "--run-dir", "r")
    assert ended.status == 2
    assert f"environment slow:{factory}: no answer to {call} within 4 s" in ended.err
    assert not (slow / "r").exists()
    assert not shared_memory()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_ends_it(
    number: signal.Signals, slow: Path, start: Callable[..., Artos]
) -> None:
    run = start("run", "ppo", "--env", "slow:Reset", "--run-dir", "r")
    run.until((slow / "asked").exists)
    run.signal(number)
    assert run.wait().status == 130
    assert not (slow / "r").exists()
