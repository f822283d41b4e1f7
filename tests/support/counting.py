"""A user's own algorithm that keeps book of every row it learned from, inside what it publishes.

It does without PyTorch, whose import would take most of the time of a test that runs it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from artos import Changeable, Learner, RolloutActor, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger

STEPS, MOST = 16, 40_000
SLOW, BRISK = Path("slow"), 1_000
"""While this file is there a step takes milliseconds, and more of them after ``BRISK`` steps: a
run soon has something to show, and does not end before a test on a busy machine has looked."""


class Counter(gym.Env[Any, Any]):
    """Shows (who it is, how many observations it has shown); an episode takes 50 steps."""

    observation_space = spaces.Box(0, 2**62, (2,), np.int64)
    action_space = spaces.Discrete(2)

    def __init__(self, seed: int) -> None:
        self.identity, self.shown, self.steps = seed, 0, 0

    def _look(self) -> Any:
        return np.array([self.identity, self.shown], np.int64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.steps = 0
        return self._look(), {}

    def step(self, action: int) -> Any:
        if SLOW.exists():
            time.sleep(0.003 if self.shown < BRISK else 0.02)
        self.shown += 1
        self.steps += 1
        return self._look(), 1.0, False, self.steps == 50, {}


def make(seed: int) -> Counter:
    print(f"counting from seed {seed}")
    return Counter(seed)


class Still:
    """A policy that always does the same and looks at nothing."""

    def __init__(self, envs: int) -> None:
        zeros = np.zeros(envs, np.float32)
        self.output = {"actions": np.zeros(envs, np.int64), "log_probs": zeros, "values": zeros}

    def bind(self, flat: Any) -> None:
        pass

    def act(self, obs: Any, info: Any) -> Any:
        return self.output

    def values(self, obs: Any, info: Any) -> Any:
        return self.output["values"]


class Walker(RolloutActor):
    """Steps its environment without a network, so that its process need not load PyTorch."""

    def build_module(self, seed: int) -> Any:
        return None

    def make_policy(self, module: Any, seed: int) -> Any:
        return Still(self.envs)

    def faults(self, module: Any) -> list[str]:
        return []


class Bookkeeper(Learner):
    """Learns nothing of use; ``live`` carries the book, so it is published with the weights."""

    parameters = 2
    changeable = (Changeable("shown", ge=0),)

    def __init__(self) -> None:
        self.shown = 0.0

    def setup(self, context: Any) -> None:
        self.params = np.zeros(self.parameters, np.float32)
        self.book = np.full((MOST, 4), -1, np.int64)
        self.count = np.zeros(1, np.int64)

    def update(self, batch: Any, call: Any) -> dict[str, float]:
        for claim, rows in zip(batch.claims, batch.gather("observations"), strict=True):
            for step, row in zip(range(claim.start, claim.stop), rows, strict=True):
                self.book[self.count[0]] = (claim.actor, step, *row[0][:2])
                self.count += 1
        self.fresh = True
        return {"rows": float(self.count[0]), "shown": self.shown}

    def live(self) -> Any:
        return {"params": self.params, "learner.book": self.book, "learner.count": self.count}

    def layout(self) -> Any:
        return (("nothing", (self.parameters,)),)


def workload(actors: int = 2, total_steps: int = 6000) -> Workload:
    actor = Walker("counting:make", envs=1)
    keys = tuple(key.name for key in actor.data_keys())
    return Workload(
        name="counting",
        actor=actor,
        learner=Bookkeeper(),
        triggers={
            "learner.update": DataKeyTrigger(keys, n=actors, size=STEPS, max_lag=1),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors,
        steps=STEPS,
        total_steps=total_steps,
    )
