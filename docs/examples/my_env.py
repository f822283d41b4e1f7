"""A corridor of ten cells: walk right to its end."""

from typing import Any

import gymnasium as gym
import numpy as np

Seen = np.ndarray[Any, np.dtype[np.float32]]


class Corridor(gym.Env[Seen, int]):
    """Reward 1 in the last cell, -0.1 for every step."""

    observation_space = gym.spaces.Box(0, 9, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        """Begin in the first cell."""
        super().reset(seed=seed)
        self.cell = 0
        return self._seen(), {}

    def step(self, action: int) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Walk one cell."""
        self.cell = min(9, max(0, self.cell + (1 if action else -1)))
        done = self.cell == 9
        return self._seen(), float(done) - 0.1, done, False, {}

    def _seen(self) -> Seen:
        return np.array([self.cell], np.float32)


def make() -> Corridor:
    """What ``--env my_env:make`` calls."""
    return Corridor()
