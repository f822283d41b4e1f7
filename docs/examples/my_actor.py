"""An actor and a learner from scratch, in NumPy: which of ten arms of a bandit pays best?"""

import numpy as np

from artos import Actor, ActorContext, Batch, DataKey, Invoke, Learner, LearnerContext, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger

PAYS = np.linspace(0, 1, 10)


def chances(preferences: np.ndarray) -> np.ndarray:
    """How likely each arm is pulled, (10,)."""
    weights = np.exp(preferences - preferences.max(), dtype=np.float64)
    return weights / weights.sum()


class Player(Actor):
    """Pulls arms, several at once, by the newest preferences."""

    envs = 8
    kept = ("random", "returns")  # what changes while it samples: saved with checkpoint=all

    def data_keys(self) -> tuple[DataKey, ...]:
        """Each row has an arm and a reward for each of the environments."""
        return DataKey("arms", (), "int64"), DataKey("rewards")

    def build_module(self, seed: int) -> np.ndarray:
        """What the learner gets as ``context.module``: here the preferences to begin with."""
        return np.zeros(len(PAYS), np.float32)

    def setup(self, context: ActorContext) -> None:
        """Take the block of rows and the seed, which no other actor has."""
        self.block, self.random = context.block, np.random.default_rng(context.seed)
        self.returns = []

    def bind(self, params: np.ndarray, version: int) -> None:
        """Act with these weights from now on, and remember their version."""
        self.chances, self.version = chances(params), version

    def sample(self, start: int, rows: int, call: Invoke) -> dict[str, float]:
        """Write all keys of rows ``start`` to ``start + rows``, the version that made them, too."""
        arrays, capacity = self.block.arrays, self.block.spec.capacity
        for row in (step % capacity for step in range(start, start + rows)):
            arms = self.random.choice(len(PAYS), self.envs, p=self.chances)
            rewards = PAYS[arms] + self.random.normal(size=self.envs)
            arrays["arms"][row], arrays["rewards"][row] = arms, rewards
            arrays["policy_version"][row] = self.version
            self.returns += rewards.tolist()
        return {}

    def episodes(self) -> tuple[list[float], list[int]]:
        """Returns and lengths of the episodes that ended since the last call: each pull is one."""
        returns, self.returns = self.returns, []
        return returns, [1] * len(returns)


class Gradient(Learner):
    """REINFORCE with a baseline."""

    reads = ("arms", "rewards")

    def __init__(self, lr: float) -> None:
        self.lr = lr

    def setup(self, context: LearnerContext) -> None:
        """Own the preferences, and a baseline that is saved with them."""
        self.preferences, self.baseline = context.module.copy(), np.zeros(1)

    def live(self) -> dict[str, np.ndarray]:
        """What a version is made of; actors bind ``params``, the rest is the learner's own."""
        return {"params": self.preferences, "learner.baseline": self.baseline}

    def layout(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Names and shapes inside ``params``."""
        return (("preferences", self.preferences.shape),)

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """Learn from arrays (actors, steps, environments), and have a version published."""
        arms, rewards = batch.gather("arms").ravel(), batch.gather("rewards").ravel()
        better = rewards - self.baseline
        pulled = np.bincount(arms, better, len(PAYS)) / len(arms)
        self.preferences += self.lr * (pulled - better.mean() * chances(self.preferences))
        self.baseline += 0.1 * (rewards.mean() - self.baseline)
        self.fresh = True
        return {"reward": float(rewards.mean())}


def workload(actors: int = 2, total_steps: int = 50_000, lr: float = 1.0) -> Workload:
    """What ``artos run my_actor.py:workload`` runs; every argument is a ``--set``."""
    return Workload(
        name="bandit",
        actor=Player(),
        learner=Gradient(lr),
        triggers={
            "learner.update": DataKeyTrigger(("arms", "rewards"), n=actors, size=16),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors, steps=16, total_steps=total_steps,
    )  # fmt: skip
