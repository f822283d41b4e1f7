"""A user's own algorithm that keeps book of every row it learned from, inside what it publishes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from artos import RolloutActor, TorchLearner, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger

STEPS, MOST = 16, 40_000
SLOW = Path("slow")
"""While this file is there an environment step takes milliseconds."""


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
            time.sleep(0.003)
        self.shown += 1
        self.steps += 1
        return self._look(), 1.0, False, self.steps == 50, {}


def make(seed: int) -> Counter:
    return Counter(seed)


class Bookkeeper(TorchLearner):
    """Learns nothing of use; ``live`` carries the book, so it is published with the weights."""

    def setup(self, context: Any) -> None:
        super().setup(context)
        self.book = np.full((MOST, 4), -1, np.int64)
        self.count = np.zeros(1, np.int64)

    def update(self, batch: Any, call: Any) -> dict[str, float]:
        for claim, rows in zip(batch.claims, batch.gather("observations"), strict=True):
            for step, row in zip(range(claim.start, claim.stop), rows, strict=True):
                self.book[self.count[0]] = (claim.actor, step, *row[0][:2])
                self.count += 1
        parameters = sum(p.sum() for p in self.module.parameters())
        self.step(parameters * 0.0)
        return {"rows": float(self.count[0])}

    def live(self) -> Any:
        return {**super().live(), "learner.book": self.book, "learner.count": self.count}


def workload(actors: int = 2, total_steps: int = 6000) -> Workload:
    actor = RolloutActor("counting:make", envs=1)
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
