"""PPO, and beside it a model of the environment that learns from the same rows."""

import dataclasses

import torch
from torch import Tensor, nn

from artos import PPO, Batch, Invoke, LearnerContext, RolloutActor, TorchLearner, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger

SEEN = ("observations", "actions", "terminations", "truncations")


class Dynamics(nn.Module):
    """What is seen after an action."""

    def __init__(self, spec) -> None:
        super().__init__()
        width = spec.parts[0].shape[0]
        self.layers = nn.Sequential(nn.Linear(width + 1, 32), nn.Tanh(), nn.Linear(32, width))

    def forward(self, seen: Tensor, actions: Tensor) -> Tensor:
        """(..., width) and (...) to (..., width)."""
        return seen + self.layers(torch.cat([seen, actions.float().unsqueeze(-1)], -1))


class WorldModel(TorchLearner):
    """Owns a network of its own, in place of the policy's."""

    def setup(self, context: LearnerContext) -> None:
        """Begin with an untrained model."""
        super().setup(dataclasses.replace(context, module=Dynamics(context.spec)))

    def fit(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """Learn from arrays (actors, steps, environments), but for steps that end an episode."""
        seen, actions = (self.tensor(batch.gather(key)) for key in SEEN[:2])
        over = self.tensor(batch.gather("terminations") | batch.gather("truncations"))
        error = (self.module(seen[:, :-1], actions[:, :-1]) - seen[:, 1:]).square().mean(-1)
        loss = error[~over[:, :-1]].mean()
        self.step(loss)
        return {"error": float(loss.detach())}


def workload(total_steps: int = 100_000, lr: float = 1e-3) -> Workload:
    """What ``artos run my_world_model.py:workload`` runs; every argument is a ``--set``."""
    actor = RolloutActor("CartPole-v1", envs=4)
    row = tuple(key.name for key in actor.data_keys())
    return Workload(
        name="ppo-model",
        actor=actor,
        learner=PPO(lr=2.5e-4, epochs=4, minibatches=4),
        learners={"model": WorldModel(lr)},
        triggers={
            "learner.update": DataKeyTrigger(row, n=2, size=128),
            "model.fit": DataKeyTrigger(SEEN, n=2, size=32),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=2, steps=128, total_steps=total_steps,
    )  # fmt: skip
