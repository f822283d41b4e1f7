"""An environment with short and long episodes, and an algorithm that keeps book of those it saw."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from counting import Bookkeeper, Walker
from gymnasium import spaces

from artos import Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger

LENGTHS = (3, 40, 7, 5)
STEPS, MOST = 16, 10_000
SLOW, HELD = Path("slow"), Path("held")
"""While one is there steps of long episodes take milliseconds, the first update goes on."""


class Episodes(gym.Env[Any, Any]):
    """Shows the length of the episode; steps of long ones may take their time."""

    observation_space = spaces.Box(0, 1000, (1,), np.int64)
    action_space = spaces.Discrete(2)

    def __init__(self, seed: int) -> None:
        self.episode, self.steps = seed % len(LENGTHS), 0

    @property
    def length(self) -> int:
        return LENGTHS[self.episode % len(LENGTHS)]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.episode, self.steps = self.episode + 1, 0
        return np.array([self.length]), {}

    def step(self, action: int) -> Any:
        if self.length == max(LENGTHS) and SLOW.exists():
            time.sleep(0.003)
        self.steps += 1
        return np.array([self.length]), 1.0, False, self.steps == self.length, {}


def make(seed: int) -> Episodes:
    return Episodes(seed)


class Archivist(Bookkeeper):
    """Its book has of each row: actor, step, lag, length of its episode, whether it ended it."""

    def setup(self, context: Any) -> None:
        super().setup(context)
        self.book = np.zeros((MOST, 5), np.int64)
        self.count = np.zeros(2, np.int64)  # rows, versions

    def update(self, batch: Any, call: Any) -> dict[str, float]:
        while HELD.exists() and self.count[1] == 0:
            time.sleep(0.005)
        names = "policy_version", "observations", "truncations"
        versions, seen, ends = (batch.gather(name) for name in names)
        for at, claim in enumerate(batch.claims):
            for row, step in enumerate(range(claim.start, claim.stop)):
                lag = self.count[1] - versions[at][row]
                facts = claim.actor, step, lag, seen[at][row][0][0], ends[at][row][0]
                self.book[self.count[0]] = facts
                self.count[0] += 1
        self.count[1] += 1
        self.fresh = True
        return {"rows": float(self.count[0])}


def workload(
    actors: int = 2, total_steps: int = 480, max_lag: int = 2, n: int = 0, size: int = STEPS
) -> Workload:
    """An update takes ``size`` rows of all actors, or of the ``n`` who are first."""
    return Workload(
        name="episodes",
        actor=Walker("episodes:make", envs=1),
        learner=Archivist(),
        triggers={
            "learner.update": DataKeyTrigger(
                ("observations", "truncations"), n=n or None, size=size, max_lag=max_lag
            ),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors,
        steps=STEPS,
        total_steps=total_steps,
    )
