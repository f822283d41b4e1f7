"""PPO, and beside it a model of the environment whose updates several processes may make."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from torch import nn

from artos import PPO, Batch, Invoke, LearnerContext, RolloutActor, TorchLearner, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger

SEEN = ("observations", "rewards")


class Model(TorchLearner):
    """Foretells rewards; each replica learns from its part of the rows."""

    replicable = True

    def setup(self, context: LearnerContext) -> None:
        torch.manual_seed(context.seed)
        super().setup(dataclasses.replace(context, module=nn.Linear(4, 1)))

    def fit(self, batch: Batch, call: Invoke) -> dict[str, float]:
        seen, rewards = (batch.gather(key) for key in SEEN)
        mine = self.replicas.part(np.arange(rewards.size))
        rows = self.tensor(seen.reshape(-1, 4)[mine]), self.tensor(rewards.reshape(-1)[mine])
        error = (self.module(rows[0]).squeeze(-1) - rows[1]).square().mean()
        self.step(error)
        return {name: float(each) for name, each in self.replicas.total({"error": error}).items()}


def workload(
    env: str = "CartPole-v1", total_steps: int = 1_000, size: int = 16, envs: int = 2
) -> Workload:
    actor = RolloutActor(env, envs=envs)
    row = tuple(key.name for key in actor.data_keys())
    return Workload(
        name="divided-model",
        actor=actor,
        learner=PPO(epochs=2, minibatches=2),
        learners={"model": Model(1e-2)},
        triggers={
            "learner.update": DataKeyTrigger(row, n=2, size=16),
            "model.fit": DataKeyTrigger(SEEN, n=2, size=size),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=2, steps=16, total_steps=total_steps,
    )  # fmt: skip
