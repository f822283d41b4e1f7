"""An environment with goals: bits to flip, of Andrychowicz et al. 2017, §3.1."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

BITS = 10


class Flip(gym.Env):
    """Each action flips a bit; the goal is a pattern of all of them."""

    bits = spaces.Box(0, 1, (BITS,), np.float32)
    observation_space = spaces.Dict(observation=bits, achieved_goal=bits, desired_goal=bits)
    action_space = spaces.Discrete(BITS)

    def reset(self, *, seed=None, options=None):
        """Begin with any pattern, and want another."""
        super().reset(seed=seed)
        self.steps = 0
        self.now, self.goal = self.np_random.integers(2, size=(2, BITS)).astype(np.float32)
        return self.seen(), {}

    def seen(self):
        """Observation, what is reached, and what is wanted."""
        return {"observation": self.now, "achieved_goal": self.now, "desired_goal": self.goal}

    def step(self, action):
        """Flip one; the episode ends at the goal, or after as many steps as there are bits."""
        self.steps += 1
        self.now = np.where(np.arange(BITS) == action, 1 - self.now, self.now)
        goals = self.now, self.goal
        reward, over = self.compute_reward(*goals, {}), self.compute_terminated(*goals, {})
        return self.seen(), float(reward), bool(over), self.steps == BITS, {}

    def compute_reward(self, achieved_goal, desired_goal, info):
        """0 at the goal, else -1: of two goals, or of (n, BITS) each at once."""
        return -np.any(achieved_goal != desired_goal, axis=-1).astype(np.float32)

    def compute_terminated(self, achieved_goal, desired_goal, info):
        """Whether that is the goal, likewise."""
        return np.all(achieved_goal == desired_goal, axis=-1)


def flip():
    """The environment, for ``--env my_goals:flip``."""
    return Flip()
