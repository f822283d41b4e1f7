"""Deep Q-learning (DQN): a policy, a learner and a table of triggers."""

import copy

import torch
from torch import nn
from torch.nn import functional

from artos import (
    ActInfo,
    DrawnBatch,
    Invoke,
    LearnerContext,
    RolloutActor,
    TorchLearner,
    Uniform,
    Workload,
)
from triggers import ReplayTrigger, RoundTrigger

ROW = ("observations", "actions", "rewards", "terminations", "truncations")


class QNetwork(nn.Module):
    """Values of all actions; explores by acting at random now and then, less as time goes by."""

    outputs = ()

    def __init__(self, spec) -> None:
        super().__init__()
        width, self.choices = spec.parts[0].shape[0], spec.actions.sizes[0]
        self.layers = nn.Sequential(
            nn.Linear(width, 128),
            nn.ReLU(),
            nn.Linear(128, 128),
            nn.ReLU(),
            nn.Linear(128, self.choices),
        )

    def forward(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        """(B, width) to (B, choices)."""
        return self.layers(obs["observations"])

    def act(self, obs: dict[str, torch.Tensor], info: ActInfo) -> dict[str, torch.Tensor]:
        """The best action of each environment, or any other one with probability ``epsilon``."""
        best = self(obs).argmax(1)
        epsilon = 0.0 if info.greedy else max(0.05, 1 - 5 * info.progress)
        anything = torch.randint(self.choices, best.shape)
        return {"actions": torch.where(torch.rand(best.shape) < epsilon, anything, best)}


class DQN(TorchLearner):
    """Double Q-learning with a target network."""

    publishing = "itself"

    def setup(self, context: LearnerContext) -> None:
        """Beside the policy's network, own a second one that follows it."""
        super().setup(context)
        self.target = self.own("target", copy.deepcopy(self.module))

    def update(self, batch: DrawnBatch, call: Invoke) -> dict[str, float]:
        """One step on the transitions that the trigger has drawn."""
        following = self.observations(batch, "next.")
        with torch.no_grad():
            best = self.module(following).argmax(1, keepdim=True)
            value = self.target(following).gather(1, best).squeeze(1)
            wanted = (
                self.tensor(batch["n_step.returns"])
                + self.tensor(batch["n_step.discounts"]) * value
            )
        actions = self.tensor(batch["actions"]).unsqueeze(1)
        found = self.module(self.observations(batch)).gather(1, actions).squeeze(1)
        loss = self.losses(batch, found, wanted).mean()
        self.step(loss)
        self.target.follow(self.network, 0.01)
        if self.network.steps % 8 == 0:
            self.publish()
        return {"loss": loss.item(), "q": found.mean().item()}

    def losses(self, batch: DrawnBatch, found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """Of each transition, (n,)."""
        return functional.smooth_l1_loss(found, wanted, reduction="none")


def workload(
    env: str = "CartPole-v1", actors: int = 1, total_steps: int = 40_000, lr: float = 1e-3
) -> Workload:
    """What ``artos run my_dqn.py:workload`` runs; every argument is a ``--set``."""
    return Workload(
        name="dqn",
        actor=RolloutActor(env, QNetwork, envs=4),
        learner=DQN(lr=lr, max_grad_norm=10.0),
        triggers={
            "learner.update": ReplayTrigger(ROW, Uniform(64, n_step=3), ratio=8.0, after=1_000),
            "actors.sample": RoundTrigger(),
        },
        actors=actors, steps=8, total_steps=total_steps, capacity=10_000, on_full="overwrite",
    )  # fmt: skip
