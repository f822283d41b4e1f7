"""A user's environments that show what they were made of."""

from __future__ import annotations

import os
import random
import sys
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

made: list[int] = []
"""The seed of each environment made in this process; -1 where its making takes none."""


class Toy(gym.Env[Any, Any]):
    """Observes its seed and two draws from the global generators; an episode takes 20 steps."""

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self, seed: int = -1) -> None:
        self.seed, self.steps = seed, 0
        made.append(seed)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.steps = 0
        return self._look(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self._look(), 1.0, self.steps == 20, False, {}

    def _look(self) -> Any:
        return np.array([float(self.seed), random.random(), np.random.random()])


def plain() -> Toy:
    return Toy()


def seeded(seed: int) -> Toy:
    return Toy(seed)


def talking() -> Toy:
    """Prints, and reads what is not meant for it."""
    print("the track is open")
    print("heard", repr(os.read(0, 100)))
    return Toy()


def raising_in_templates() -> Toy:
    if "artos.runtime.template" in " ".join(sys.orig_argv):
        raise RuntimeError("no template today")
    return Toy()


class Unresettable(Toy):
    """Fails when seeded as in a run, not as by registration."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if not seed:
            return super().reset(seed=seed, options=options)
        print("resetting")
        raise RuntimeError("no reset today")


def raising_on_reset() -> Toy:
    return Unresettable()


class Tiring(Toy):
    """Can be stepped ten times in its life."""

    life = 0

    def step(self, action: Any) -> Any:
        self.life += 1
        if self.life > 10:
            raise RuntimeError("too tired")
        return super().step(action)


def tiring() -> Tiring:
    return Tiring()
