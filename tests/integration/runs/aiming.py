"""Environments that are learned in seconds: each step earns more, the nearer it is to its aim."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

STEPS = 4


class Aim(gym.Env[Any, Any]):
    """The aim is (0.5, -0.5) whatever is shown; missing it costs the square of the distance."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space: spaces.Space[Any] = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = self.reward(action)
        self.at += 1
        over = self.at == STEPS
        return self._seen(), reward, over, False, {}

    def reward(self, action: Any) -> float:
        return -float(np.square(action - np.array([0.5, -0.5])).sum())

    def _seen(self) -> Any:
        self.shown = np.float32(self.np_random.choice([-1.0, 1.0]))
        return np.array([self.shown, 1.0], np.float32)


class Name(Aim):
    """The aim is one of two actions, which is shown."""

    action_space = spaces.Discrete(2)

    def reward(self, action: Any) -> float:
        return float((action == 1) == (self.shown > 0))


def aim() -> Aim:
    return Aim()


def name() -> Name:
    return Name()
