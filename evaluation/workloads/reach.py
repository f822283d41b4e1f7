"""A point that has to reach another one, and is only told whether it is there."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

STEPS = 25
_SPEED, _NEAR = 0.15, 0.15

Floats = NDArray[np.float32]


class Reach(gym.Env[Any, Floats]):
    """An action is a velocity; each of ``STEPS`` steps costs 1 that does not end at the goal."""

    def __init__(self) -> None:
        plane = spaces.Box(-1, 1, (2,), np.float32)
        self.observation_space = spaces.Dict(
            observation=plane, achieved_goal=plane, desired_goal=plane
        )
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Floats], dict[str, Any]]:
        """Begin anywhere, and want to be anywhere else."""
        super().reset(seed=seed)
        self._steps = 0
        self._at, self._goal = self.np_random.uniform(-1, 1, (2, 2)).astype(np.float32)
        return self._seen(), {}

    def step(self, action: Floats) -> tuple[dict[str, Floats], float, bool, bool, dict[str, Any]]:
        """Move; walls hold the point back."""
        self._steps += 1
        self._at = np.clip(self._at + _SPEED * np.asarray(action, np.float32), -1, 1)
        paid = float(self.compute_reward(self._at, self._goal, {}))
        return self._seen(), paid, False, self._steps == STEPS, {}

    def compute_reward(self, achieved_goal: Floats, desired_goal: Floats, info: Any) -> Floats:
        """0 near the goal, else -1: of two goals, or of (n, 2) each at once."""
        far = np.linalg.norm(achieved_goal - desired_goal, axis=-1) > _NEAR
        return -np.asarray(far, np.float32)

    def _seen(self) -> dict[str, Floats]:
        at = self._at.copy()
        return {"observation": at, "achieved_goal": at, "desired_goal": self._goal}


def make() -> Reach:
    """For ``--env``."""
    return Reach()
