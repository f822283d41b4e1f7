"""Gradients of action values that are written down are those that autograd finds."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from artos.envs.spec import ActionSpec, EnvSpec, Part
from artos.policies.analytic_values import AnalyticValues
from artos.policies.values import Obs, QNetwork
from artos.specs.keys import MASK_KEY
from triggers.algorithms.apex import RatingQNetwork

ROWS = 32
VECTOR = (Part("position", (3,), "float32"), Part("speed", (2, 2), "float32"))
SPEC = EnvSpec("toy", VECTOR, ActionSpec("discrete", (), (4,)))


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("hidden", [(), (6,), (8, 5)])
def test_of_the_values_of_actions(hidden: tuple[int, ...], dueling: bool, normalize: bool) -> None:
    torch.manual_seed(0)
    module = QNetwork(SPEC, hidden, dueling=dueling, normalize=normalize)
    obs = {part.name: torch.randn(ROWS, *part.shape) for part in VECTOR}
    if module.encoder.normalizer is not None:
        module.encoder.normalizer.update({name: 3 * seen + 1 for name, seen in obs.items()})
    felt = torch.randn(ROWS, 4)
    values = module(obs)
    wanted = torch.autograd.grad((felt * values).sum(), [*module.parameters()])
    exact = AnalyticValues.of(module)
    assert exact is not None
    for parameter in module.parameters():
        parameter.grad = torch.full_like(parameter, torch.nan)
    torch.testing.assert_close(exact.evaluate(obs), values)
    exact.backward(felt)
    for parameter, gradient in zip(module.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-5, rtol=1e-4)


def test_an_action_that_was_allowed_has_the_value_that_it_has_in_the_module() -> None:
    module, obs = (
        QNetwork(SPEC, (6,)),
        {part.name: torch.randn(ROWS, *part.shape) for part in VECTOR},
    )
    allowed = obs | {MASK_KEY: torch.rand(ROWS, 4) > 0.5}
    exact = AnalyticValues.of(module)
    assert exact is not None
    mask = allowed[MASK_KEY]
    torch.testing.assert_close(exact.evaluate(allowed)[mask], module(allowed)[mask])


class Other(QNetwork):
    """Rates actions in another way."""

    def values(self, features: Tensor, obs: Obs) -> Tensor:
        return 2 * super().values(features, obs)


def test_others_are_left_to_autograd() -> None:
    assert AnalyticValues.of(RatingQNetwork(SPEC)) is not None, "it chooses in another way alone"
    image = Part("picture", (36, 36), "uint8", low=0, high=255)
    assert AnalyticValues.of(Other(SPEC)) is None
    assert AnalyticValues.of(QNetwork(EnvSpec("toy", (image,), SPEC.actions))) is None
    assert AnalyticValues.of(torch.nn.Linear(2, 2)) is None
