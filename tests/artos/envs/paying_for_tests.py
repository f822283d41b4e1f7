"""An environment that pays three rewards at once."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

LENGTH = 3


class Paying(gym.Env[Any, Any]):
    """Pays (step, action, 1) in an array that it goes on writing; an episode has three steps."""

    observation_space = spaces.Box(0, 10, (1,), np.float32)
    action_space = spaces.Discrete(4)

    def __init__(self, rewards: int = 3, *, torn: bool = False) -> None:
        self.reward_space = spaces.Box(-10, 10, (rewards,))
        self._paid, self._torn = np.zeros(rewards + torn), torn

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.at += 1
        self._paid[:3] = self.at, action, 1
        return np.full(1, self.at, np.float32), self._paid, self.at == LENGTH, False, {}


def paying(rewards: int = 3, torn: bool = False) -> Paying:
    return Paying(rewards, torn=torn)


def in_a_vector(num_envs: int) -> Any:
    return gym.make_vec("CartPole-v1", num_envs, vectorization_mode="sync")
