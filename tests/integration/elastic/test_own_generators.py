"""Clones and forks have generators and names of their own, where environments make these."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from elastic import needs_criu
from helpers import PATIENCE, ROOT

pytestmark = pytest.mark.processes

ALGORITHM = """
import json, random, uuid
import gymnasium as gym
import numpy as np
from artos import PPO, RolloutActor, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger

KEYS = ("observations", "actions", "rewards", "terminations", "truncations", "log_probs", "values",
        "bootstraps")


class Draws(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (5, 2), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self):
        self.own, self.old = np.random.default_rng(), np.random.RandomState()
        self.name = uuid.uuid4().int % 2**48 / 2**48

    def shown(self):
        mine = (self.own.random(), self.old.rand(), self.name)
        draws = np.array([np.random.rand(), random.random(), *mine])
        # 24 bits, what float32 holds exactly, twice: of 384 draws of 24 bits two are often alike.
        return np.stack([draws * 2**24 // 1, draws * 2**48 // 1 % 2**24], 1).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.shown(), {}

    def step(self, action):
        self.t += 1
        return self.shown(), 0.0, self.t == 10, False, {}


class Together(gym.vector.VectorEnv):
    def __init__(self, num_envs):
        self.envs = [Draws() for _ in range(num_envs)]
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}
        self.single_observation_space = Draws.observation_space
        self.single_action_space = Draws.action_space

    def reset(self, *, seed=None, options=None):
        return np.stack([env.reset()[0] for env in self.envs]), {}

    def step(self, actions):
        shown = np.stack([env.step(0)[0] for env in self.envs])
        return shown, np.zeros(self.num_envs), *np.zeros((2, self.num_envs), bool), {}


class Comparing(PPO):
    def update(self, batch, call):
        shown = batch.gather("observations")
        draws, environments = shown[..., 0, 0].size, shown.shape[0] * shown.shape[2]
        distinct = [len(np.unique(shown[..., i, :].reshape(-1, 2), axis=0)) for i in range(5)]
        with open("distinct.json", "w") as file:
            json.dump([draws, environments, distinct], file)
        return super().update(batch, call)


def workload(actors: str = "3", total_steps: int = 192, env: str = "draws:Draws"):
    return Workload(
        name="draws", actors=actors, steps=32, total_steps=total_steps,
        actor=RolloutActor(env, envs=2), learner=Comparing(minibatches=1, epochs=1),
        triggers={"learner.update": DataKeyTrigger(KEYS, size=32),
                  "actors.sample": ObjectKeyTrigger("model_param")},
    )
"""
ANYWHERE = {
    "more actors than slots": ("--actors", "6", "--set", "slots=2", "--total-steps", "384"),
    "forks": ("--set", "start=fork"),
    "cold": ("--set", "start=cold"),
}
OF_A_VECTOR = ("--env", "draws:Together", "--set")
BY_IMAGES = {
    "clones": ("--set", "start=clone"),
    "clones of a vector": (*OF_A_VECTOR, "start=clone"),
    "images between rounds": ("--set", "park=checkpoint", "--total-steps", "384"),
}


def distinct(folder: Path, *options: str) -> None:
    (folder / "draws.py").write_text(ALGORITHM)
    command = [sys.executable, "-P", "-m", "deploy.cli", "run", "draws.py:workload", *options]
    subprocess.run(
        [*command, "--json"], cwd=folder, check=True, timeout=PATIENCE, capture_output=True
    )
    draws, environments, found = json.loads((folder / "distinct.json").read_text())
    assert found == [draws, draws, draws, draws, environments]


@pytest.mark.parametrize("way", [*[*ANYWHERE][:2], pytest.param("cold", marks=pytest.mark.long)])
def test_every_draw_is_its_own(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    distinct(tmp_path, *ANYWHERE[way])


@pytest.mark.long
def test_of_a_vector_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    distinct(tmp_path, *OF_A_VECTOR, "start=fork")


@needs_criu
@pytest.mark.long
@pytest.mark.parametrize("way", BY_IMAGES)
def test_of_clones_too(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    distinct(tmp_path, *BY_IMAGES[way])
