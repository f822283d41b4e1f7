"""Gradients that are written down are those that autograd finds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from artos.envs.spec import ActionSpec, EnvSpec, Part
from artos.losses.ppo import Clipped, ppo_loss
from artos.policies.actor_critic import ActorCritic
from artos.policies.analytic import Analytic
from artos.specs.keys import MASK_KEY

ROWS = 64
VECTOR = (Part("position", (3,), "float32"), Part("speed", (2, 2), "float32"))
DISCRETE = ActionSpec("discrete", (), (4,))
OWN_UNITS = ActionSpec("box", (2,), (), (-1.0, -1.0), (1.0, 1.0))
FIXED = ActionSpec("box", (3,), (), (-2.0, 1.0, 0.0), (2.0, 1.0, 5.0))
"""Its second dimension is."""


def some(actions: ActionSpec, seed: int = 0) -> tuple[dict[str, Tensor], Tensor, dict[str, Any]]:
    """Observations, actions, and what else PPO's loss is made of."""
    torch.manual_seed(seed)
    obs = {part.name: torch.randn(ROWS, *part.shape) for part in VECTOR}
    if actions.kind == "discrete":
        chosen = torch.randint(0, actions.sizes[0], (ROWS,))
    else:
        chosen = torch.randn(ROWS, *actions.shape)
    rows = ("old_log_probs", "advantages", "old_values", "returns")
    return obs, chosen, {name: torch.randn(ROWS) for name in rows}


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("hidden", [(), (6,), (8, 5)])
@pytest.mark.parametrize("kind", [DISCRETE, OWN_UNITS, FIXED], ids=["choice", "box", "fixed"])
def test_of_the_whole_loss(kind: ActionSpec, hidden: tuple[int, ...], normalize: bool) -> None:
    module = ActorCritic(EnvSpec("toy", VECTOR, kind), hidden, normalize=normalize, correlation=0.5)
    obs, actions, rows = some(kind)
    if module.normalizer is not None:
        module.normalizer.update({name: 3 * seen + 1 for name, seen in obs.items()})
    with torch.no_grad():  # probabilities of about 1/2, as those of most choices are
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        rows["old_log_probs"] = module.evaluate(obs, actions)[0] + 0.2 * torch.randn(ROWS)
    coefficients = {"clip": 0.2, "value_clip": 0.5, "vf_coef": 0.7, "ent_coef": 0.3}
    valid = torch.rand(ROWS) > 0.2
    log_probs, entropy, values = module.evaluate(obs, actions)
    loss, report = ppo_loss(
        log_probs=log_probs, entropy=entropy, values=values, valid=valid, **rows, **coefficients
    )  # fmt: skip
    wanted = torch.autograd.grad(loss, [*module.parameters()])

    exact = Analytic.of(module)
    assert exact is not None
    for parameter in module.parameters():
        parameter.grad = torch.full_like(parameter, torch.nan)
    log_probs, entropy, values = exact.evaluate(obs, actions)
    found = Clipped(
        log_probs=log_probs, entropy=entropy, values=values, valid=valid, **rows, **coefficients
    )  # fmt: skip
    exact.backward(*found.gradients(0.5))
    torch.testing.assert_close(found.report(), report)
    for parameter, gradient in zip(module.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.grad, 0.5 * gradient, atol=1e-6, rtol=1e-4)


def test_of_choices_some_of_which_are_forbidden() -> None:
    obs, actions, rows = some(DISCRETE)
    allowed = torch.rand(ROWS, 4) > 0.5
    obs[MASK_KEY] = allowed.scatter(1, actions.unsqueeze(1), True)
    module = ActorCritic(EnvSpec("toy", VECTOR, DISCRETE), (8,))
    by_log_probs, by_entropy = rows["returns"], rows["advantages"]
    log_probs, entropy, values = module.evaluate(obs, actions)
    loss = (by_log_probs * log_probs + by_entropy * entropy + values).sum()
    wanted = torch.autograd.grad(loss, [*module.parameters()])
    exact = Analytic.of(module)
    assert exact is not None
    for parameter in module.parameters():
        parameter.grad = torch.empty_like(parameter)
    evaluated = exact.evaluate(obs, actions)
    torch.testing.assert_close(evaluated, (log_probs, entropy, values))
    exact.backward(by_log_probs, torch.ones(ROWS), by_entropy)
    for parameter, gradient in zip(module.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-5, rtol=1e-4)


class Other(ActorCritic):
    """May evaluate in another way."""


def test_others_are_left_to_autograd() -> None:
    image = Part("picture", (36, 36), "uint8", low=0, high=255)
    several = ActionSpec("multidiscrete", (2,), (3, 2))
    assert Analytic.of(Other(EnvSpec("toy", VECTOR, DISCRETE))) is None
    assert Analytic.of(ActorCritic(EnvSpec("toy", VECTOR, several))) is None
    assert Analytic.of(ActorCritic(EnvSpec("toy", (image,), DISCRETE), cnn=True)) is None
    assert Analytic.of(torch.nn.Linear(2, 2)) is None
