"""An environment that shows pictures, small enough to learn from in a moment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Pictures(gym.Env[Any, int]):
    """Random pictures of 36 x 36, and a number beside them."""

    def __init__(self) -> None:
        picture = spaces.Box(0, 255, (1, 36, 36), np.uint8)
        self.observation_space = spaces.Dict(
            {"picture": picture, "number": spaces.Box(-1, 1, (2,), np.float32)}
        )
        self.action_space = spaces.Discrete(3)

    def _shown(self) -> dict[str, Any]:
        rng = self.np_random
        return {
            "picture": rng.integers(0, 256, (1, 36, 36), np.uint8),
            "number": rng.uniform(-1, 1, 2).astype(np.float32),
        }

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._at = 0
        return self._shown(), {}

    def step(self, action: int) -> Any:
        self._at += 1
        return self._shown(), float(action), self._at == 9, False, {}
