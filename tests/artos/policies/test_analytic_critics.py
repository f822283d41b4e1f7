"""Gradients of critics and their policies, written down, are those that autograd finds."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from artos.envs.spec import ActionSpec, EnvSpec, Part
from artos.policies.analytic_critics import (
    AnalyticClimb,
    AnalyticCritics,
    AnalyticDeterministic,
    AnalyticGaussian,
)
from artos.policies.critics import Critics
from artos.policies.squashed import Deterministic, SquashedGaussian

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


@pytest.fixture(params=[False, True], ids=["as it is", "normalised"])
def normalize(request: pytest.FixtureRequest) -> bool:
    torch.manual_seed(0)
    return bool(request.param)


def seen() -> dict[str, torch.Tensor]:
    return {part.name: torch.randn(ROWS, *part.shape) for part in VECTOR}


HIDDEN = pytest.mark.parametrize("hidden", [(), (6,), (8, 5)])


@HIDDEN
def test_of_critics(hidden: tuple[int, ...], normalize: bool) -> None:
    critics, obs = Critics(SPEC, hidden, normalize=normalize), seen()
    exact = AnalyticCritics.of(critics)
    assert exact is not None
    actions = torch.rand(ROWS, 3, requires_grad=True)
    values, felt = critics(obs, actions), torch.randn(2, ROWS)
    *wanted, of_actions = both(critics, values, felt, actions)
    torch.testing.assert_close(exact.evaluate(obs, actions.detach()), values)
    exact.backward(felt)
    torch.testing.assert_close([p.grad for p in critics.parameters()], wanted)
    torch.testing.assert_close(exact.of_actions(felt), of_actions)
    torch.testing.assert_close(exact.evaluate(obs, actions.detach(), first=1), values[:1])


@HIDDEN
def test_of_a_squashed_gaussian(hidden: tuple[int, ...], normalize: bool) -> None:
    policy, obs = SquashedGaussian(SPEC, hidden, normalize=normalize), seen()
    with torch.no_grad():  # some deviations are out of their range
        policy.layers.layers[-1][-3:] = torch.tensor((0.0, 4.0, -30.0))
    exact = AnalyticGaussian.of(policy)
    assert exact is not None
    noise, felt, of_logs = torch.randn(ROWS, 3), torch.randn(ROWS, 3), torch.randn(ROWS)
    drawn, logs = policy.sample(obs, noise)
    found = torch.cat((drawn, logs.unsqueeze(1)), 1)
    wanted = both(policy, found, torch.cat((felt, of_logs.unsqueeze(1)), 1))
    torch.testing.assert_close(exact.sample(obs, noise), (drawn, logs))
    exact.backward(felt, of_logs)
    torch.testing.assert_close([p.grad for p in policy.parameters()], wanted, atol=1e-4, rtol=1e-4)


@HIDDEN
def test_of_a_deterministic_policy(hidden: tuple[int, ...], normalize: bool) -> None:
    policy, obs = Deterministic(SPEC, hidden, normalize=normalize), seen()
    exact = AnalyticDeterministic.of(policy)
    assert exact is not None
    actions, felt = policy(obs), torch.randn(ROWS, 3)
    wanted = both(policy, actions, felt)
    torch.testing.assert_close(exact.evaluate(obs), actions)
    exact.backward(felt)
    torch.testing.assert_close([p.grad for p in policy.parameters()], wanted)


class Other(SquashedGaussian):
    """Chooses in another way."""


def test_others_are_left_to_autograd() -> None:
    image = Part("picture", (36, 36), "uint8", low=0, high=255)
    picture = EnvSpec("toy", (image,), ACTIONS)
    assert AnalyticGaussian.of(Other(SPEC)) is None
    assert AnalyticGaussian.of(SquashedGaussian(picture)) is None
    assert AnalyticDeterministic.of(Deterministic(picture)) is None
    assert AnalyticCritics.of(Critics(SPEC, out=5)) is None
    assert AnalyticCritics.of(Critics(picture)) is None
    assert AnalyticCritics.of(nn.Linear(2, 2)) is None
    policy, critics = AnalyticGaussian.of(SquashedGaussian(SPEC)), Critics(SPEC)
    assert AnalyticClimb.of(policy, critics, critics) is not None
    assert AnalyticClimb.of(policy, critics, Critics(picture)) is None
    assert AnalyticClimb.of(None, critics, critics) is None
