"""A corridor that nobody walks to its end by chance: the only reward is there."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Corridor(gym.Env[np.int64, int]):
    """Rooms in a row, and time for twice as many steps."""

    action_space = spaces.Discrete(2)

    def __init__(self, rooms: int = 25) -> None:
        self.rooms, self.observation_space = rooms, spaces.Discrete(rooms)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Begin in the first room."""
        super().reset(seed=seed)
        self.at = self.steps = 0
        return np.int64(0), {}

    def step(self, action: int) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """One room on or back."""
        self.steps += 1
        self.at = max(0, self.at + (1 if action else -1))
        there = self.at == self.rooms - 1
        return np.int64(self.at), float(there), there, self.steps == 2 * self.rooms, {}


def make(rooms: int = 25) -> Corridor:
    """What ``--env corridor:make`` calls."""
    return Corridor(rooms)
