"""A curriculum: the way gets longer whenever it is found nearly always."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from artos import PPO, Changeable, RolloutActor, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger, SetTrigger, ValueTrigger

ROW = ("observations", "actions", "rewards", "terminations", "truncations")
POLICY = ("log_probs", "values", "bootstraps")


class Way(gym.Env):
    """The goal is so many steps to the left or to the right; as many the other way is a pit."""

    metadata = {"settable": [Changeable("length", ge=1, le=50)]}
    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.length = 1

    def reset(self, *, seed=None, options=None):
        """Begin in the middle; the goal may be on either side."""
        super().reset(seed=seed)
        self.goal, self.at, self.steps = self.np_random.choice([-1, 1]), 0, 0
        return self.seen(), {}

    def seen(self):
        """The side of the goal, and how far it is."""
        return np.array([self.goal, self.at / self.length], np.float32)

    def step(self, action):
        """One step; it takes too long after ten times as many as are needed."""
        self.at, self.steps = self.at + (1 if action else -1), self.steps + 1
        there = abs(self.at) >= self.length
        reward = float(np.sign(self.at) == self.goal) * 2 - 1 if there else 0.0
        return self.seen(), reward, there, self.steps >= 10 * self.length, {}


def way():
    """The environment, for ``--env my_curriculum:way``."""
    return Way()


def workload(total_steps: int = 60_000) -> Workload:
    """PPO on a way of one step, then of 3, 6 and 12."""
    return Workload(
        name="curriculum", actors=2, steps=64, total_steps=total_steps,
        actor=RolloutActor("my_curriculum:way", envs=4), learner=PPO(lr=1e-3),
        triggers={
            "learner.update": DataKeyTrigger(ROW + POLICY, size=64, max_lag=0),
            "actors.sample": ObjectKeyTrigger("model_param"),
            "set.env.length": SetTrigger(
                when=ValueTrigger("mean_return_100", above=0.95), set=(3, 6, 12)
            ),
        },
    )  # fmt: skip
