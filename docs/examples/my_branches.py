"""A sparse task, and an actor that goes on from the best of many continuations."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from artos import PPO, BranchingActor, RolloutActor, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger

ROW = ("observations", "actions", "rewards", "terminations", "truncations")
POLICY = ("log_probs", "values", "bootstraps")


class Doors(gym.Env):
    """Twelve doors, each with a code of four keys; a door pays 1, a wrong key is the end."""

    keys = np.random.default_rng(7).integers(4, size=48)

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 1, self.keys.shape, np.float32)
        self.action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        """Begin before the first door."""
        super().reset(seed=seed)
        self.right = 0
        return self.seen(), {}

    def seen(self):
        """How many keys were right so far, one-hot."""
        return np.eye(1, len(self.keys), min(self.right, 47), np.float32)[0]

    def step(self, action):
        """Press a key."""
        wrong = action != self.keys[self.right]
        self.right += not wrong
        pays = float(not wrong and self.right % 4 == 0)
        return self.seen(), pays, wrong or self.right == len(self.keys), False, {}


def doors():
    """The environment, for ``--env my_branches:doors``."""
    return Doors()


def workload(branch: bool = True, total_steps: int = 40_000) -> Workload:
    """PPO whose actor branches, or plain PPO, which is otherwise the same."""
    env = "my_branches:doors"
    actor = BranchingActor(env, groups=4, group=8) if branch else RolloutActor(env, envs=32)
    return Workload(
        name="doors", actors=1, steps=8, total_steps=total_steps,
        actor=actor, learner=PPO(lr=1e-3, minibatches=2),
        triggers={
            "learner.update": DataKeyTrigger(ROW + POLICY, size=8, max_lag=0),
            "actors.branch" if branch else "actors.sample": ObjectKeyTrigger("model_param"),
        },
    )  # fmt: skip
