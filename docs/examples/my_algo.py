"""Advantage actor-critic (A2C): a learner, an actor and a table of triggers."""

import numpy as np
import torch

from artos import Batch, Invoke, RolloutActor, TorchLearner, Workload, advantages
from triggers import DataKeyTrigger, ObjectKeyTrigger

KEYS = ("observations", "actions", "rewards", "values", "bootstraps", "terminations", "truncations")


class A2C(TorchLearner):
    """One gradient step per batch: policy gradient with a learned baseline."""

    def __init__(self, lr: float, gamma: float, lam: float, entropy_bonus: float) -> None:
        super().__init__(lr=lr)
        self.gamma, self.lam, self.entropy_bonus = gamma, lam, entropy_bonus

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """Learn from ``batch``, whose arrays are (actors, steps, environments, ...)."""
        self.network.optimiser.lr = self.lr * (1 - call.progress)
        rows = {key: batch.gather(key) for key in KEYS}
        advantage, returns = advantages(
            rows["rewards"], rows["values"], rows["bootstraps"],
            rows["terminations"], rows["truncations"], self.gamma, self.lam,
        )  # fmt: skip
        weight, target = self.flat(advantage), self.flat(returns)
        observations = {"observations": self.flat(rows["observations"])}
        log_probs, entropy, values = self.module.evaluate(observations, self.flat(rows["actions"]))
        weight = (weight - weight.mean()) / (weight.std() + 1e-8)
        policy_loss = -(weight * log_probs).mean()
        value_loss = (values - target).square().mean()
        self.step(policy_loss + 0.5 * value_loss - self.entropy_bonus * entropy.mean())
        return {"policy_loss": policy_loss.item(), "value_loss": value_loss.item()}

    def flat(self, array: np.ndarray) -> torch.Tensor:
        """The first three axes as one: a row per environment step."""
        return self.tensor(array.reshape(-1, *array.shape[3:]))


def workload(
    env: str = "CartPole-v1", actors: int = 2, *, envs: int = 4, steps: int = 32,
    total_steps: int = 100_000, lr: float = 3e-3, gamma: float = 0.99, lam: float = 0.95,
    entropy_bonus: float = 0.01,
) -> Workload:  # fmt: skip
    """What ``artos run my_algo.py:workload`` runs; every argument is a ``--set``."""
    return Workload(
        name="a2c",
        actor=RolloutActor(env, envs=envs),
        learner=A2C(lr, gamma, lam, entropy_bonus),
        triggers={
            "learner.update": DataKeyTrigger(KEYS, n=actors, size=steps),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors, steps=steps, total_steps=total_steps,
    )  # fmt: skip
