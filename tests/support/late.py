"""Users' environments that no seed repeats after a while."""

from __future__ import annotations

import os
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

PICTURES = 200
"""Steps after which pictures of environments with an odd seed are not decided by it."""


class Late(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Its rewards are of no seed after 40 steps."""

    steps = 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        obs, reward, *others = super().step(action)
        chance = int.from_bytes(os.urandom(4)) / 2**32 if self.steps > 40 else 0.0
        return obs, float(reward) + chance, *others


def late() -> Late:
    return Late(gymnasium.make("CartPole-v1"))


class Pictures(gymnasium.Env[Any, Any]):
    """Only what it shows is of no seed in the end, if that is odd; rewards and ends always are."""

    observation_space = spaces.Box(0, 255, (36, 36, 1), np.uint8)
    action_space = spaces.Discrete(2)
    steps, odd = 0, False

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.odd = self.odd if seed is None else seed % 2 == 1
        return self._shown(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self._shown(), 1.0, self.steps % 20 == 0, False, {}

    def _shown(self) -> Any:
        if self.odd and self.steps > PICTURES:
            return np.frombuffer(os.urandom(36 * 36), np.uint8).reshape(36, 36, 1)
        return np.full((36, 36, 1), 20 * (self.steps % 10), np.uint8)
