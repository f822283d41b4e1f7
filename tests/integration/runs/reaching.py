"""A point on a plane that is to reach a goal, which it seldom does by chance."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

STEPS, NEAR = 20, 0.1


class Point(gym.Env[Any, Any]):
    """Moves by up to 0.2 along each axis; -1 a step until it is near the goal.

    Its ``compute_terminated`` is for one goal at a time, and wrong for many.
    """

    place = spaces.Box(-1, 1, (2,), np.float64)
    observation_space = spaces.Dict(observation=place, achieved_goal=place, desired_goal=place)
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        self.now, self.goal = self.np_random.uniform(-1, 1, (2, 2))
        return self.seen(), {}

    def seen(self) -> dict[str, NDArray[Any]]:
        return {"observation": self.now, "achieved_goal": self.now, "desired_goal": self.goal}

    def step(
        self, action: Any
    ) -> tuple[dict[str, NDArray[Any]], float, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.now = np.clip(self.now + 0.2 * action, -1, 1)
        reward = float(self.compute_reward(self.now, self.goal, {}))
        over = self.compute_terminated(self.now, self.goal, {})
        return self.seen(), reward, over, self.steps == STEPS, {}

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        far = np.linalg.norm(achieved_goal - desired_goal, axis=-1) > NEAR
        return -far.astype(np.float64)

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> bool:
        return bool(np.linalg.norm(achieved_goal - desired_goal) <= NEAR)
