"""Dyna (Sutton 1991): Q-learning also from steps that a model of the environment imagines."""

import copy

import numpy as np
import torch
from my_dqn import ROW, QNetwork
from torch import Tensor, nn
from torch.nn import functional

from artos import (
    DrawnBatch,
    Invoke,
    LearnerContext,
    RolloutActor,
    TorchLearner,
    Uniform,
    Workload,
)
from triggers import ReplayTrigger, RoundTrigger

DISCOUNT = 0.99


class Model(nn.Module):
    """What an action leads to: the next observation, the reward, and whether it goes on."""

    def __init__(self, spec) -> None:
        super().__init__()
        width, self.choices = spec.parts[0].shape[0], spec.actions.sizes[0]
        self.layers = nn.Sequential(
            nn.Linear(width + self.choices, 128), nn.ReLU(), nn.Linear(128, width + 2)
        )

    def forward(self, seen: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(n, width) and (n,) to (n, width), (n,) and the logits of going on, (n,)."""
        chosen = functional.one_hot(actions, self.choices).float()
        change, reward, on = self.layers(torch.cat([seen, chosen], 1)).tensor_split([-2, -1], 1)
        return seen + change, reward.squeeze(1), on.squeeze(1)


class Dyna(TorchLearner):
    """After each batch of real transitions, ``plan`` batches of imagined ones."""

    publishing = "itself"

    def __init__(self, lr: float, plan: int) -> None:
        super().__init__(lr=lr, max_grad_norm=10.0)
        self.plan = plan

    def setup(self, context: LearnerContext) -> None:
        """Beside the policy's network own one that follows it, and the model."""
        super().setup(context)
        self.target = self.own("target", copy.deepcopy(self.module))
        self.model = self.own("model", Model(context.spec), lr=1e-3)

    def update(self, batch: DrawnBatch, call: Invoke) -> dict[str, float]:
        """Learn from what was, learn what was, then learn from what might have been."""
        seen = self.tensor(batch["observations"])
        after = self.tensor(batch["next.observations"])
        actions, rewards = self.tensor(batch["actions"]), self.tensor(batch["n_step.returns"])
        on = (self.tensor(batch["n_step.discounts"]) > 0).float()
        loss = self.learn(seen, actions, rewards, on, after)
        error = self.fit(seen, actions, rewards, on, after)
        chance = np.random.default_rng((self.context.seed, self.network.steps))
        for _ in range(self.plan):
            others = self.tensor(chance.integers(self.module.choices, size=len(actions)))
            with torch.no_grad():
                there, reward, logits = self.model(seen, others)
            self.learn(seen, others, reward, logits.sigmoid(), there)
        self.target.follow(self.network, 0.01)
        if self.network.steps % (8 * (1 + self.plan)) == 0:
            self.publish()
        return {"loss": loss, "model_error": error}

    def learn(
        self, seen: Tensor, actions: Tensor, rewards: Tensor, on: Tensor, after: Tensor
    ) -> float:
        """A step of double Q-learning."""
        with torch.no_grad():
            best = self.module({"observations": after}).argmax(1, keepdim=True)
            value = self.target({"observations": after}).gather(1, best).squeeze(1)
        found = self.module({"observations": seen}).gather(1, actions.unsqueeze(1)).squeeze(1)
        loss = functional.smooth_l1_loss(found, rewards + DISCOUNT * on * value)
        self.step(loss)
        return loss.item()

    def fit(
        self, seen: Tensor, actions: Tensor, rewards: Tensor, on: Tensor, after: Tensor
    ) -> float:
        """A step of the model."""
        there, reward, logits = self.model(seen, actions)
        error = functional.mse_loss(there, after) + functional.mse_loss(reward, rewards)
        self.model.step(error + functional.binary_cross_entropy_with_logits(logits, on))
        return error.item()


def workload(
    env: str = "CartPole-v1", actors: int = 1, total_steps: int = 20_000, lr: float = 1e-3,
    plan: int = 3,
) -> Workload:  # fmt: skip
    """What ``artos run my_dyna.py:workload`` runs; every argument is a ``--set``."""
    return Workload(
        name="dyna",
        actor=RolloutActor(env, QNetwork, envs=4),
        learner=Dyna(lr, plan),
        triggers={
            "learner.update": ReplayTrigger(
                ROW, Uniform(64, gamma=DISCOUNT), ratio=8.0, after=500
            ),
            "actors.sample": RoundTrigger(),
        },
        actors=actors, steps=8, total_steps=total_steps, capacity=20_000, on_full="overwrite",
    )  # fmt: skip
