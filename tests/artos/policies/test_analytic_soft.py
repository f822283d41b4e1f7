"""Gradients of critics and of a squashed Gaussian, written down, are those that autograd finds."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from artos.envs.spec import ActionSpec, EnvSpec, Part
from artos.policies.analytic_soft import AnalyticSoft
from artos.policies.critics import Critics
from artos.policies.squashed import SquashedGaussian

ROWS = 32
VECTOR = (Part("position", (3,), "float32"), Part("speed", (2, 2), "float32"))
# The second dimension is fixed.
ACTIONS = ActionSpec("box", (3,), (), (-2.0, 1.0, -1.0), (2.0, 1.0, 3.0))
SPEC = EnvSpec("toy", VECTOR, ACTIONS)


def both(module: nn.Module, found: torch.Tensor, felt: torch.Tensor, *more: torch.Tensor) -> list:
    """What autograd finds, after which nothing is left in ``grad``."""
    wanted = torch.autograd.grad((felt * found).sum(), [*module.parameters(), *more])
    for parameter in module.parameters():
        parameter.grad = torch.full_like(parameter, torch.nan)
    return [*wanted]


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("hidden", [(), (6,), (8, 5)])
def test_of_critics_and_policy(hidden: tuple[int, ...], normalize: bool) -> None:
    torch.manual_seed(0)
    policy = SquashedGaussian(SPEC, hidden, normalize=normalize)
    critics = Critics(SPEC, hidden, normalize=normalize)
    with torch.no_grad():  # some deviations are out of their range
        policy.layers.layers[-1][-3:] = torch.tensor((0.0, 4.0, -30.0))
    exact = AnalyticSoft.of(policy, critics, critics)
    assert exact is not None
    obs = {part.name: torch.randn(ROWS, *part.shape) for part in VECTOR}

    actions = torch.rand(ROWS, 3, requires_grad=True)
    values, felt = critics(obs, actions), torch.randn(2, ROWS)
    *wanted, of_actions = both(critics, values, felt, actions)
    torch.testing.assert_close(exact.critics.evaluate(obs, actions.detach()), values)
    exact.critics.backward(felt)
    torch.testing.assert_close([p.grad for p in critics.parameters()], wanted)
    torch.testing.assert_close(exact.critics.of_actions(felt), of_actions)

    noise, felt, of_logs = (torch.randn(ROWS, *shape) for shape in ((3,), (3,), ()))
    drawn, logs = policy.sample(obs, noise)
    found, weights = (
        torch.cat((drawn, logs.unsqueeze(1)), 1),
        torch.cat((felt, of_logs.unsqueeze(1)), 1),
    )
    wanted = both(policy, found, weights)
    torch.testing.assert_close(exact.policy.sample(obs, noise), (drawn, logs))
    exact.policy.backward(felt, of_logs)
    torch.testing.assert_close([p.grad for p in policy.parameters()], wanted, atol=1e-4, rtol=1e-4)


class Other(SquashedGaussian):
    """Chooses in another way."""


def test_others_are_left_to_autograd() -> None:
    image = Part("picture", (36, 36), "uint8", low=0, high=255)
    seen = EnvSpec("toy", (image,), ACTIONS)
    policy, critics = SquashedGaussian(SPEC), Critics(SPEC)
    assert AnalyticSoft.of(Other(SPEC), critics, critics) is None
    assert AnalyticSoft.of(policy, Critics(SPEC, out=5), critics) is None
    assert AnalyticSoft.of(policy, critics, nn.Linear(2, 2)) is None
    assert AnalyticSoft.of(SquashedGaussian(seen), Critics(seen), Critics(seen)) is None
