"""Squashed actions that are one step of autograd, against the formula differentiated by torch."""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from artos.envs.spec import ActionSpec, EnvSpec, Part
from artos.policies.distributions import LOG_2PI
from artos.policies.squashed import SquashedGaussian


def test_actions_log_probabilities_and_gradients() -> None:
    torch.manual_seed(0)
    actions = ActionSpec("box", (3,), (), (-1.0, -2.0, 1.0), (1.0, 2.0, 1.0))  # the last is fixed
    spec = EnvSpec("some", (Part("observations", (4,), "float32"),), actions)
    policy = SquashedGaussian(spec, (8,))
    with torch.no_grad():
        policy.layers[-1].bias[3:] = torch.tensor([0.5, 5.0, -30.0])  # two of them are out of range
    x, noise = torch.randn(6, 4), torch.randn(6, 3)
    found = policy.sample({"observations": x}, noise)

    mean, log_std = policy({"observations": x})
    before = mean + log_std.exp() * noise
    slope = 2 * (math.log(2) - before - functional.softplus(-2 * before))
    logs = -0.5 * noise.square() - log_std - 0.5 * LOG_2PI - slope
    free = torch.tensor([1.0, 1.0, 0.0])
    wanted = (torch.tanh(before) * free, (logs * free).sum(-1))
    torch.testing.assert_close(found, wanted)

    weights = torch.randn(6, 3), torch.randn(6)

    def gradients(values: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        loss = sum((v * w).sum() for v, w in zip(values, weights, strict=True))
        return torch.autograd.grad(loss, [*policy.parameters()])

    torch.testing.assert_close(gradients(found), gradients(wanted))
