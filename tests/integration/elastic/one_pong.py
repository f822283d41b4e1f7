"""A single Pong with Gymnasium's own preprocessing, which starts no thread."""

from __future__ import annotations

from typing import Any

import ale_py
import gymnasium as gym
import numpy as np
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

gym.register_envs(ale_py)
WORTH = np.random.default_rng(0).random(1000)


class Telling(gym.Wrapper[Any, Any, Any, Any]):
    """What an action pays is of its step alone: two returns are the same if all actions are."""

    steps = 0

    def step(self, action: Any) -> Any:
        seen, reward, *ended = super().step(action)
        self.steps += 1
        return seen, float(reward) + action * WORTH[self.steps % len(WORTH)], *ended


def pong() -> gym.Env[Any, Any]:
    single = AtariPreprocessing(gym.make("ALE/Pong-v5", frameskip=1))
    return FrameStackObservation(Telling(single), 4)
