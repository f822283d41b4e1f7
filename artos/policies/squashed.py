"""Policies for bounded continuous actions, and the discrete one of SAC.

Networks and critics work with actions in -1 ... 1; rows hold the environment's own numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from artos.envs.spec import EnvSpec
from artos.policies.acting import ActInfo
from artos.policies.bounds import Bounds
from artos.policies.choosing import require_actions
from artos.policies.distributions import LOG_2PI, OUT
from artos.policies.encoders import Encoder
from artos.policies.masks import masked, unbiased
from artos.policies.relu_mlp import ReluMlp

Obs = dict[str, Tensor]
_LOWEST, _HIGHEST = -20.0, 2.0


class SquashedGaussian(nn.Module):
    """Normal actions squashed by tanh, with a deviation that depends on the state (SAC).

    The first ``random`` environment steps of a run are uniformly random.
    """

    outputs: tuple[str, ...] = ()

    def __init__(
        self,
        spec: EnvSpec,
        hidden: Sequence[int] = (256, 256),
        *,
        random: int = 0,
        normalize: bool = False,
    ) -> None:
        super().__init__()
        require_actions(spec, "SquashedGaussian", "box")
        self.encoder = Encoder(spec, normalize=normalize)
        self.bounds, self.random = Bounds(spec.actions), random
        self.layers: nn.Module = ReluMlp(self.encoder.width, hidden, 2 * self.bounds.size)

    def forward(self, obs: Obs) -> tuple[Tensor, Tensor]:
        """Means and logarithms of deviations before squashing, both (B, size)."""
        mean, log_std = self.layers(self.encoder(obs)).chunk(2, -1)
        return mean, log_std.clamp(_LOWEST, _HIGHEST)

    def sample(self, obs: Obs, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Unit actions (B, size) and their log probabilities (B,), with gradients.

        ``noise`` (B, size) are the standard normal numbers that they are made of.
        Haarnoja et al. 2018, appendix C, in the form that does not overflow.
        """
        return self.sampled(self.layers(self.encoder(obs)), noise)

    def sampled(self, out: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """What ``sample`` makes of the last layer ``out`` (B, 2 * size)."""
        mean, log_std = out.chunk(2, -1)
        noise = torch.randn_like(mean) if noise is None else noise
        if torch.compiler.is_compiling():
            actions, logs, _ = _squashed(mean, log_std.clamp(_LOWEST, _HIGHEST), noise)
        else:
            actions, logs = _Squashed.apply(mean, log_std, noise)  # type: ignore[no-untyped-call]
        return self.bounds.freed(actions), self.bounds.freed(logs).sum(-1)

    def act(self, obs: Obs, info: ActInfo) -> dict[str, Tensor]:
        """What ``draw`` makes of an ``answer``."""
        return self.draw(self.answer(obs, info), info)

    def answer(self, obs: Obs, info: ActInfo) -> dict[str, Tensor]:
        """The last layer (B, 2 * size); no chance is in it."""
        return {OUT: self.layers(self.encoder(obs))}

    def draw(self, answer: dict[str, Tensor], info: ActInfo) -> dict[str, Tensor]:
        """``actions`` (B, *shape) float32."""
        out = answer[OUT]
        if info.greedy:
            unit = torch.tanh(out.chunk(2, -1)[0])
        elif info.steps < self.random:
            unit = self.bounds.anything(len(out))
        else:
            unit = self.sampled(out)[0]
        return {"actions": self.bounds(unit)}


def _squashed(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Actions, the terms of their log probabilities, and what is random about them; (B, size)."""
    random = log_std.exp() * noise
    before = mean + random
    slope = 2 * (math.log(2) - before - functional.softplus(-2 * before))
    return torch.tanh(before), -0.5 * noise.square() - log_std - (0.5 * LOG_2PI + slope), random


class _Squashed(torch.autograd.Function):
    """Actions and their log probabilities as one step: a sixth of the nodes of autograd."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        actions, logs, *kept = squashed(mean, log_std, noise)
        ctx.save_for_backward(actions, *kept)
        return actions, logs

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, of_actions: Tensor, of_logs: Tensor) -> tuple[Tensor | None, ...]:
        return *squashed_gradients(ctx.saved_tensors, of_actions, of_logs), None


def squashed(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, ...]:
    """Actions, the terms of their log probabilities, and what else ``squashed_gradients`` takes."""
    kept = log_std.clamp(_LOWEST, _HIGHEST)
    return *_squashed(mean, kept, noise), kept == log_std


def squashed_gradients(
    kept: Sequence[Tensor], of_actions: Tensor, of_logs: Tensor
) -> tuple[Tensor, Tensor]:
    """Of means and logarithms of deviations, given those of actions and of the terms; (B, size).

    ``kept`` are the actions, and what ``squashed`` returned behind the terms.
    """
    actions, random, inside = kept
    before = of_actions * (1 - actions.square()) + 2 * of_logs * actions
    return before, (before * random - of_logs) * inside


class Deterministic(nn.Module):
    """One action per state, explored with Gaussian noise of deviation ``noise`` (TD3, DDPG).

    The first ``random`` environment steps of a run are uniformly random.
    """

    outputs: tuple[str, ...] = ()

    def __init__(
        self,
        spec: EnvSpec,
        hidden: Sequence[int] = (256, 256),
        *,
        noise: float = 0.1,
        random: int = 0,
        normalize: bool = False,
    ) -> None:
        super().__init__()
        require_actions(spec, "Deterministic", "box")
        self.encoder = Encoder(spec, normalize=normalize)
        self.bounds = Bounds(spec.actions)
        self.noise, self.random = noise, random
        self.layers = ReluMlp(self.encoder.width, hidden, self.bounds.size)

    def forward(self, obs: Obs) -> Tensor:
        """Unit actions (B, size)."""
        return self.bounds.freed(torch.tanh(self.layers(self.encoder(obs))))

    def act(self, obs: Obs, info: ActInfo) -> dict[str, Tensor]:
        """What ``draw`` makes of an ``answer``."""
        return self.draw(self.answer(obs, info), info)

    def answer(self, obs: Obs, info: ActInfo) -> dict[str, Tensor]:
        """Unit actions (B, size); no chance is in them."""
        return {OUT: self(obs)}

    def draw(self, answer: dict[str, Tensor], info: ActInfo) -> dict[str, Tensor]:
        """``actions`` (B, *shape) float32."""
        unit = answer[OUT]
        if not info.greedy and info.steps < self.random:
            unit = self.bounds.anything(len(unit))
        elif not info.greedy:
            unit = (unit + self.noise * torch.randn_like(unit)).clamp(-1, 1)
        return {"actions": self.bounds(unit)}


class Softmax(nn.Module):
    """Probabilities of discrete actions (Christodoulou 2019)."""

    outputs: tuple[str, ...] = ()

    def __init__(
        self,
        spec: EnvSpec,
        hidden: Sequence[int] = (256, 256),
        *,
        random: int = 0,
        normalize: bool = False,
    ) -> None:
        super().__init__()
        require_actions(spec, "Softmax", "discrete")
        self.encoder = Encoder(spec, normalize=normalize)
        self.choices, self.random = spec.actions.sizes[0], random
        self.layers = ReluMlp(self.encoder.width, hidden, self.choices)

    def forward(self, obs: Obs) -> Tensor:
        """Log probabilities (B, choices), those of masked choices so small that they are 0."""
        return functional.log_softmax(self._logits(obs), -1)

    def _logits(self, obs: Obs) -> Tensor:
        return masked(self.layers(self.encoder(obs)), obs)

    def act(self, obs: Obs, info: ActInfo) -> dict[str, Tensor]:
        """What ``draw`` makes of an ``answer``."""
        return self.draw(self.answer(obs, info), info)

    def answer(self, obs: Obs, info: ActInfo) -> dict[str, Tensor]:
        """Logits (B, choices), masked; no chance is in them."""
        return {OUT: self._logits(obs)}

    def draw(self, answer: dict[str, Tensor], info: ActInfo) -> dict[str, Tensor]:
        """``actions`` (B,) int64."""
        logs = functional.log_softmax(answer[OUT], -1)
        if not info.greedy and info.steps < self.random:
            logs = unbiased(answer[OUT])
        if not info.greedy:  # the winner of a Gumbel race is a sample
            logs = logs - torch.empty_like(logs).exponential_().log()
        return {"actions": logs.argmax(-1)}
