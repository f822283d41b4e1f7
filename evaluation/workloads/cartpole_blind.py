"""CartPole that shows positions and no velocities, so that a policy has to remember."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class Blind(gym.ObservationWrapper[Any, Any, Any]):
    """Leaves out the two velocities."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        low, high = env.observation_space.low, env.observation_space.high  # type: ignore[attr-defined]
        self.observation_space = gym.spaces.Box(low[::2], high[::2], (2,), np.float32)

    def observation(self, observation: Any) -> Any:
        """Of four numbers the first and the third."""
        return observation[::2]


def make() -> gym.Env[Any, Any]:
    """One of them."""
    return Blind(gym.make("CartPole-v1"))
