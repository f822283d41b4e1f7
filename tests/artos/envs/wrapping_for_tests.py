"""Wrappers, and an environment to be wrapped."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Scaled(gym.RewardWrapper[Any, Any]):
    """Rewards ``by`` times as high."""

    def __init__(self, env: gym.Env[Any, Any], *, by: float) -> None:
        super().__init__(env)
        self._by = by

    def reward(self, reward: Any) -> Any:
        return self._by * reward


class Told(gym.RewardWrapper[Any, Any]):
    """One more."""

    def reward(self, reward: Any) -> Any:
        return reward + 1.0


class Halved(gym.ObservationWrapper[Any, Any, Any]):
    """Shows the first half."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def observation(self, observation: Any) -> Any:
        return observation[:2]


def number(env: gym.Env[Any, Any]) -> int:
    del env
    return 1


def cartpole() -> gym.Env[Any, Any]:
    return gym.make("CartPole-v1")
