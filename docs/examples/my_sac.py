"""Soft actor-critic (SAC): a squashed Gaussian, two critics, and replay drawn at a ratio."""

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


def layers(inside: int, outside: int) -> nn.Sequential:
    """Two hidden layers of 256 units."""
    return nn.Sequential(
        nn.Linear(inside, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, outside)
    )


class Gaussian(nn.Module):
    """Normal actions, squashed by tanh to the bounds of the action space."""

    outputs = ()

    def __init__(self, spec) -> None:
        super().__init__()
        self.size, self.high = spec.actions.shape[0], spec.actions.high[0]
        self.layers = layers(spec.parts[0].shape[0], 2 * self.size)

    def sample(self, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Actions (B, size) from -1 to 1, and their log probabilities (B,)."""
        mean, log_std = self.layers(seen).chunk(2, -1)
        normal = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp())
        raw = normal.rsample()
        squashed = 2 * (0.693 - raw - functional.softplus(-2 * raw))
        return torch.tanh(raw), (normal.log_prob(raw) - squashed).sum(-1)

    def act(self, obs: dict[str, torch.Tensor], info: ActInfo) -> dict[str, torch.Tensor]:
        """A draw for each environment, or the middle of the distribution."""
        seen = obs["observations"]
        mean = self.layers(seen).chunk(2, -1)[0]
        return {"actions": self.high * (torch.tanh(mean) if info.greedy else self.sample(seen)[0])}


class Critics(nn.Module):
    """Two estimates of the value of an action."""

    def __init__(self, inside: int) -> None:
        super().__init__()
        self.pair = nn.ModuleList(layers(inside, 1) for _ in range(2))

    def forward(self, seen: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """(2, B)."""
        both = torch.cat((seen, actions), -1)
        return torch.stack([net(both).squeeze(-1) for net in self.pair])


class SAC(TorchLearner):
    """Everything that it owns is saved with the policy, and restored after a crash."""

    publishing = "itself"

    def setup(self, context: LearnerContext) -> None:
        """Own critics, their targets, and the logarithm of the temperature."""
        super().setup(context)
        critics = Critics(context.spec.parts[0].shape[0] + self.module.size)
        self.critics = self.own("critics", critics, lr=1e-3)
        self.targets = self.own("targets", copy.deepcopy(critics))
        self.log_temperature = self.own("log_temperature", torch.zeros(()), lr=1e-3)

    def update(self, batch: DrawnBatch, call: Invoke) -> dict[str, float]:
        """Step critics, policy and temperature once."""
        seen, following = (self.tensor(batch[key]) for key in ("observations", "next.observations"))
        returns, discounts = (
            self.tensor(batch[key]) for key in ("n_step.returns", "n_step.discounts")
        )
        temperature = self.log_temperature().detach().exp()
        with torch.no_grad():
            actions, logs = self.module.sample(following)
            value = self.targets(following, actions).amin(0) - temperature * logs
            wanted = returns + discounts * value
        found = self.critics(seen, self.tensor(batch["actions"]) / self.module.high)
        loss = (found - wanted).square().sum(0).mean()
        self.critics.step(loss)
        actions, logs = self.module.sample(seen)
        self.step((temperature * logs - self.critics(seen, actions).amin(0)).mean())
        surplus = -logs.detach().mean() + self.module.size
        self.log_temperature.step(self.log_temperature() * surplus)
        self.targets.follow(self.critics, 0.005)
        if self.network.steps % 8 == 0:
            self.publish()
        return {"loss": loss.item(), "temperature": temperature.item()}


def workload(env: str = "Pendulum-v1", actors: int = 1, total_steps: int = 8_000) -> Workload:
    """What ``artos run my_sac.py:workload`` runs; every argument is a ``--set``."""
    return Workload(
        name="sac",
        actor=RolloutActor(env, Gaussian, envs=1),
        learner=SAC(lr=1e-3, max_grad_norm=None),
        triggers={
            "learner.update": ReplayTrigger(ROW, Uniform(128), ratio=128.0, after=500),
            "actors.sample": RoundTrigger(),
        },
        actors=actors, steps=8, total_steps=total_steps, capacity=50_000, on_full="overwrite",
    )  # fmt: skip
