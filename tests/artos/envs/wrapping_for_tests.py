"""Wrappers, and an environment to be wrapped."""

from __future__ import annotations

from typing import Any, ClassVar

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


class Drawn(gym.Env[Any, Any]):
    """Pays 1 and 2 in each step, never ends, and draws itself."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"]}
    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)
    reward_space = spaces.Box(0, 2, (2,), np.float32)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(self, **options: Any) -> Any:
        del options
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        del action
        return np.zeros(2, np.float32), np.array([1.0, 2.0]), False, False, {}

    def render(self) -> Any:
        return np.zeros((8, 8, 3), np.uint8)
