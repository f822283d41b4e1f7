"""Hindsight experience replay (Andrychowicz et al. 2017): what was reached becomes the goal."""

from functools import partial

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from artos import DQN, DrawnBatch, RolloutActor, Sequences, Workload
from artos.buffer.samplers.transitions import DISCOUNTS, NEXT, RETURNS
from artos.policies.values import Epsilon, QNetwork
from triggers import ReplayTrigger, RoundTrigger

REACHED, WANTED = "observations.achieved_goal", "observations.desired_goal"
SEEN = ("observations.observation", REACHED, WANTED)
BITS = 10


def pay(reached, wanted):
    """What the environment's ``compute_reward`` pays, (n,): 0 at the goal, else -1."""
    return -np.any(reached != wanted, axis=-1).astype(np.float32)


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
        reward = float(pay(self.now, self.goal))
        return self.seen(), reward, reward == 0, self.steps == BITS, {}


class HER(DQN):
    """Double Q-learning on rows whose goal is, four times of five, what was reached later on."""

    def learn(self, batch):
        """A step on relabelled transitions."""
        return super().learn(self.relabelled(batch))

    def relabelled(self, batch):
        """Transitions (n, ...) out of drawn windows (B, T, ...); each is of one episode."""
        random = np.random.default_rng((self.context.seed, self.updates))
        counted = batch["mask"][:, :-1]  # the last row has no successor in its window
        at, step = np.nonzero(counted)
        later = step + (random.random(len(step)) * (counted.sum(1)[at] - step)).astype(int)
        hindsight = random.random((len(step), 1)) < 0.8
        goals = np.where(hindsight, batch[REACHED][at, later + 1], batch[WANTED][at, step])
        rewards = pay(batch[REACHED][at, step + 1], goals)
        rows = {name: batch[name][at, step] for name in (*SEEN, "actions")} | {WANTED: goals}
        after = {NEXT + name: batch[name][at, step + 1] for name in SEEN} | {NEXT + WANTED: goals}
        returns = {RETURNS: rewards, DISCOUNTS: 0.98 * (rewards < 0).astype(np.float32)}
        index = batch.index[at] + np.stack([0 * step, step, 0 * step], 1)
        return DrawnBatch({**rows, **after, **returns, "index": index}, None)


def flip():
    """The environment, for ``--env my_her:flip``."""
    return Flip()


def workload(env: str = "my_her:flip", actors: int = 1, total_steps: int = 40_000) -> Workload:
    """What ``artos run my_her.py:workload`` runs; every argument is a ``--set``."""
    policy = partial(QNetwork, hidden=(256,), epsilon=Epsilon(start=0.5, end=0.05, share=0.5))
    keys, drawn = (*SEEN, "actions", "rewards"), Sequences(32, length=BITS + 2)
    return Workload(
        name="her",
        actor=RolloutActor(env, policy, envs=4),
        learner=HER(lr=1e-3, target_every=50),
        triggers={
            "learner.update": ReplayTrigger(keys, drawn, ratio=16.0, after=1_000),
            "actors.sample": RoundTrigger(),
        },
        actors=actors, steps=8, capacity=20_000, on_full="overwrite", total_steps=total_steps,
    )  # fmt: skip
