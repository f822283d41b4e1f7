"""Advantage actor-critic whose updates two processes make together, each with half of the rows."""

import numpy as np
import torch

from artos import Batch, Invoke, RolloutActor, TorchLearner, Workload, advantages
from triggers import DataKeyTrigger, ObjectKeyTrigger

KEYS = ("observations", "actions", "rewards", "values", "bootstraps", "terminations", "truncations")


class Divided(TorchLearner):
    """One gradient step per batch; each replica has the whole batch, and learns from its part."""

    replicable = True

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """Learn from ``batch``, whose arrays are (actors, steps, environments, ...)."""
        rows = {key: batch.gather(key) for key in KEYS}
        found = advantages(**{key: rows[key] for key in KEYS[2:]}, gamma=0.99, lam=0.95)
        weight, target = (self.flat(each) for each in found)
        weight = (weight - weight.mean()) / (weight.std() + 1e-8)  # of all rows
        mine = self.tensor(self.replicas.part(np.arange(len(batch))))
        observations = {"observations": self.flat(rows["observations"])[mine]}
        actions = self.flat(rows["actions"])[mine]
        log_probs, entropy, values = self.module.evaluate(observations, actions)
        policy_loss = -(weight[mine] * log_probs).mean()  # of its part
        value_loss = (values - target[mine]).square().mean()
        self.step(policy_loss + 0.5 * value_loss - 0.01 * entropy.mean())
        told = self.replicas.total({"policy_loss": policy_loss, "value_loss": value_loss})
        return {name: value.item() for name, value in told.items()}

    def flat(self, array: np.ndarray) -> torch.Tensor:
        """The first three axes as one: a row per environment step."""
        return self.tensor(array.reshape(-1, *array.shape[3:]))


def workload(
    env: str = "CartPole-v1", actors: int = 2, *, envs: int = 4, steps: int = 32,
    total_steps: int = 100_000, lr: float = 3e-3, learners: int = 2,
) -> Workload:  # fmt: skip
    """What ``artos run my_replicas.py:workload`` runs; every argument is a ``--set``."""
    return Workload(
        name="divided",
        actor=RolloutActor(env, envs=envs),
        learner=Divided(lr),
        triggers={
            "learner.update": DataKeyTrigger(KEYS, n=actors, size=steps),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors, steps=steps, total_steps=total_steps, replicas=learners,
    )  # fmt: skip
