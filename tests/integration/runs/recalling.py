"""An environment that only a memory can master: what was shown first is asked for last."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

LENGTH = 4


class Recall(gym.Env[Any, Any]):
    """Shows -1 or 1, then zeros; the last action earns 1 if it names what was shown."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.shown, self.at = int(self.np_random.integers(2)), 0
        return self._seen(2.0 * self.shown - 1), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at += 1
        over = self.at == LENGTH
        return self._seen(0.0), float(over and action == self.shown), over, False, {}

    def _seen(self, cue: float) -> Any:
        return np.array([cue, self.at == LENGTH - 1], np.float32)


def make() -> Recall:
    return Recall()
