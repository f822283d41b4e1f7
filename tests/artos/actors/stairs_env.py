"""A flight of stairs that an actor climbs as it is told."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Stairs(gym.Env[Any, Any]):
    """Each step up pays 1, waiting nothing; the way down, or the ninth step, is the end."""

    observation_space = spaces.Box(0, 9, (1,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at = 0
        return self._seen(), {}

    def _seen(self) -> Any:
        return np.array([self.at], np.float32)

    def step(self, action: Any) -> Any:
        self.at += int(action == 1)
        return self._seen(), float(action == 1), action == 0 or self.at == 9, False, {}


class Uncloned(Stairs):
    def __init__(self) -> None:
        self.held = (each for each in ())


class StackedStairs(Stairs):
    metadata: ClassVar[dict[str, Any]] = {"frame_stack": 2}
    observation_space = spaces.Box(0, 9, (2, 1), np.float32)

    def _seen(self) -> Any:
        return np.full((2, 1), self.at, np.float32)


def stacked() -> StackedStairs:
    return StackedStairs()


class Landings(Stairs):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at = int(self.np_random.integers(1, 5))
        return self._seen(), {}


class Slippery(Stairs):
    """Pays for a step up what its own stream says."""

    def step(self, action: Any) -> Any:
        seen, paid, *rest = super().step(action)
        return seen, paid * float(self.np_random.random()), *rest


def slippery() -> Slippery:
    return Slippery()


def landings() -> Landings:
    return Landings()


def stairs() -> Stairs:
    return Stairs()


def uncloned() -> Uncloned:
    return Uncloned()
