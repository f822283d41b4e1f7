"""Policies that act by the values of actions: Q-networks for discrete actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from artos.envs.spec import EnvSpec
from artos.policies.acting import ActInfo
from artos.policies.choosing import require_actions
from artos.policies.distributions import OUT
from artos.policies.encoders import Encoder
from artos.policies.masks import masked, unbiased
from artos.policies.relu_mlp import ReluMlp

Obs = dict[str, Tensor]


@dataclass(frozen=True)
class Epsilon:
    """How often to act at random: from ``start`` down to ``end`` within a share of the run."""

    start: float = 1.0
    end: float = 0.05
    share: float = 0.1
    spread: float = 0.0
    """If it is not 0, actors differ.

    Actor i of N acts at random with probability ``epsilon ** (1 + spread * i / (N - 1))`` (Horgan
    et al. 2018, §4.1: 0.4 and 7), and like the last one where nothing is learned from it.
    """

    def at(self, info: ActInfo) -> float:
        """The probability for an actor at a point of the run."""
        done = min(1.0, info.progress / self.share) if self.share else 1.0
        epsilon = self.start + done * (self.end - self.start)
        if self.spread:
            rank = info.actor / max(1, info.actors - 1) if info.learned_from else 1.0
            epsilon **= 1 + self.spread * rank
        return epsilon


class QNetwork(nn.Module):
    """Values of all actions (Mnih et al. 2015), explored ε-greedily.

    ``dueling`` splits them into a state's value and the actions' advantages, whose mean is zero
    (Wang et al. 2016, eq. 9).
    """

    outputs: tuple[str, ...] = ()

    def __init__(
        self,
        spec: EnvSpec,
        hidden: Sequence[int] = (256, 256),
        *,
        dueling: bool = False,
        epsilon: Epsilon = Epsilon(),
        normalize: bool = False,
        features: int = 0,
    ) -> None:
        """``features`` is the width of what ``values`` is given; 0: the encoder's."""
        super().__init__()
        require_actions(spec, type(self).__name__, "discrete")
        self.encoder = Encoder(spec, normalize=normalize)
        self.epsilon, self.choices = epsilon, spec.actions.sizes[0]
        self.masked = bool(spec.masked)
        features = features or self.encoder.width
        self.advantage = ReluMlp(features, hidden, self.choices)
        self.value = ReluMlp(features, hidden, 1) if dueling else None

    def forward(self, obs: Obs) -> Tensor:
        """Values (B, choices) float32, masked."""
        return self.values(self.encoder(obs), obs)

    def values(self, features: Tensor, obs: Obs) -> Tensor:
        """Values (B, choices) float32, masked, of features (B, width)."""
        values: Tensor = self.advantage(features)
        if self.value is not None:
            values = self.value(features) + values - values.mean(1, keepdim=True)
        return masked(values, obs)

    def act(self, obs: Obs, info: ActInfo) -> dict[str, Tensor]:
        """What ``draw`` makes of an ``answer``."""
        return self.draw(self.answer(obs, info), info)

    def answer(self, obs: Obs, info: ActInfo) -> dict[str, Tensor]:
        """Values (B, choices), masked; no chance is in them."""
        return {OUT: self(obs)}

    def draw(self, answer: dict[str, Tensor], info: ActInfo) -> dict[str, Tensor]:
        """``actions`` (B,) int64: the best one, or any at random."""
        return {"actions": self.explored(answer[OUT], info)}

    def explored(self, values: Tensor, info: ActInfo) -> Tensor:
        """Actions (B,) for values (B, choices), masked."""
        best = values.argmax(1)
        if info.greedy:
            return best
        at_random = torch.rand(best.shape) < self.epsilon.at(info)
        return torch.where(at_random, self._any(best, values), best)

    def _any(self, best: Tensor, values: Tensor) -> Tensor:
        if not self.masked:
            return torch.randint_like(best, self.choices)
        return (torch.rand(values.shape) + unbiased(values)).argmax(1)
