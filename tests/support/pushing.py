"""A point that is pushed to the middle; a push only tells a step later, so values are needed."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

STEPS = 20


class Pushing(gym.Env[NDArray[np.float32], NDArray[np.float32]]):
    """Position and speed of the point are seen; a step costs its distance."""

    observation_space = spaces.Box(-2, 2, (2,))
    action_space = spaces.Box(-1, 1, (1,))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin at rest somewhere."""
        super().reset(seed=seed)
        self.place, self.speed, self.steps = self.np_random.uniform(-1, 1), 0.0, 0
        return self.seen(), {}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Go on at the speed that it has, and push."""
        self.steps += 1
        self.place = float(np.clip(self.place + self.speed, -2, 2))
        self.speed = float(np.clip(self.speed + 0.3 * action[0], -0.5, 0.5))
        return self.seen(), -abs(self.place), False, self.steps == STEPS, {}

    def seen(self) -> NDArray[np.float32]:
        return np.array([self.place, self.speed], np.float32)
