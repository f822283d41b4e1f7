"""A vector environment of which all in a process write what they show into one array."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

SHOWN = np.zeros((1, 1), np.float32)


class Counting(VectorEnv[Any, Any, Any]):
    """Counts its steps, from a hundred times its seed on."""

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": AutoresetMode.SAME_STEP}
    num_envs = 1
    single_observation_space = spaces.Box(0, 1e6, (1,), np.float32)
    single_action_space = spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        SHOWN[:] = 100 * seed
        self.at = 100 * seed
        return SHOWN, {}

    def step(self, actions: Any) -> Any:
        self.at += 1
        SHOWN[:] = self.at
        return SHOWN, np.zeros(1), np.zeros(1, bool), np.zeros(1, bool), {}


def make(num_envs: int) -> Counting:
    return Counting()
