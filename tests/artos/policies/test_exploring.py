"""Policies of off-policy algorithms: bounds, log probabilities, exploration."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from spaces_for_tests import DISCRETE, FLAT, MIXED, STACKED, VECTOR, random_obs, spec_with
from torch import Tensor, nn
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution

from artos.envs.spec import ActionSpec, EnvSpec, Part
from artos.policies.acting import ActInfo, Declared
from artos.policies.build import check_policy
from artos.policies.critics import Critics
from artos.policies.squashed import Deterministic, Softmax, SquashedGaussian
from artos.policies.values import Epsilon, QNetwork

BOX = ActionSpec("box", (2, 1), (), (-2.0, 0.0), (2.0, 1.0))
POLICIES: dict[str, tuple[Callable[[EnvSpec], nn.Module], ActionSpec]] = {
    "q": (QNetwork, DISCRETE),
    "dueling": (partial(QNetwork, dueling=True), DISCRETE),
    "softmax": (Softmax, DISCRETE),
    "gaussian": (SquashedGaussian, BOX),
    "deterministic": (Deterministic, BOX),
}
GREEDY = ActInfo(greedy=True)


def tensors(spec: EnvSpec, rows: int) -> dict[str, Tensor]:
    return {name: torch.from_numpy(part) for name, part in random_obs(spec, rows, 0).items()}


@pytest.mark.parametrize("parts", [(VECTOR,), FLAT, (STACKED,), MIXED])
@pytest.mark.parametrize("name", POLICIES)
def test_they_fit_and_greedy_ones_repeat_themselves(name: str, parts: tuple[Part, ...]) -> None:
    policy, actions = POLICIES[name]
    spec = spec_with(actions, *parts)
    module = policy(spec)
    assert check_policy(module, spec, Declared(())) == []
    obs = tensors(spec, 50)
    best = [module.act(obs, GREEDY)["actions"] for _ in range(2)]  # type: ignore[operator]
    assert torch.equal(*best)
    explored = module.act(obs, ActInfo())["actions"]  # type: ignore[operator]
    assert not torch.equal(explored, best[0])
    if actions is BOX:
        low, high = (torch.tensor(side).reshape(2, 1) for side in (BOX.low, BOX.high))
        assert ((explored >= low) & (explored <= high)).all()


def test_log_probabilities_are_those_of_a_squashed_normal() -> None:
    spec = spec_with(BOX, VECTOR)
    module, obs = SquashedGaussian(spec), tensors(spec, 5)
    mean, log_std = module(obs)
    noise = torch.randn(mean.shape, generator=torch.Generator().manual_seed(3))
    actions, logs = module.sample(obs, noise)
    squashed = TransformedDistribution(Normal(mean, log_std.exp()), [TanhTransform()])
    torch.testing.assert_close(
        logs, Independent(squashed, 1).log_prob(actions), rtol=1e-4, atol=1e-4
    )
    torch.testing.assert_close(module.bounds.unit(module.bounds(actions)), actions)


def test_softmax_draws_what_it_says() -> None:
    spec = spec_with(DISCRETE, VECTOR)
    module = Softmax(spec)
    obs = {"observations": torch.randn(1, *VECTOR.shape).expand(20_000, -1)}
    torch.manual_seed(0)
    drawn = torch.bincount(module.act(obs, ActInfo())["actions"], minlength=4) / 20_000
    torch.testing.assert_close(drawn, module(obs)[0].exp(), atol=0.015, rtol=0)


@pytest.mark.parametrize("kind", [Softmax, SquashedGaussian, Deterministic])
def test_the_first_actions_are_random(kind: type) -> None:
    spec = spec_with(DISCRETE if kind is Softmax else BOX, VECTOR)
    module, obs = kind(spec, random=9), tensors(spec, 1)
    obs = {"observations": obs["observations"].expand(2_000, -1)}
    early = module.act(obs, ActInfo(steps=8))["actions"].float().reshape(2_000, -1)
    late = module.act(obs, ActInfo(steps=9))["actions"].float().reshape(2_000, -1)
    if kind is Softmax:
        even = torch.bincount(early.long().ravel(), minlength=4) / 2_000
        torch.testing.assert_close(even, torch.full((4,), 0.25), atol=0.05, rtol=0)
    else:
        spread = torch.tensor([4.0, 1.0]) / 12**0.5
        torch.testing.assert_close(early.std(0), spread, rtol=0.1, atol=0)
        assert ((late.std(0) - spread).abs() > 0.02).all()


@pytest.mark.parametrize(
    ("epsilon", "info", "probability"),
    [
        (Epsilon(), ActInfo(), 1.0),
        (Epsilon(1.0, 0.1, 0.5), ActInfo(progress=0.25), 0.55),
        (Epsilon(1.0, 0.1, 0.5), ActInfo(progress=0.9), 0.1),
        (Epsilon(share=0.0), ActInfo(), 0.05),
        (Epsilon(0.4, 0.4, 0.0, 7.0), ActInfo(0, 8), 0.4),
        (Epsilon(0.4, 0.4, 0.0, 7.0), ActInfo(7, 8), 0.4**8),
        (Epsilon(0.4, 0.4, 0.0, 7.0), ActInfo(0, 1), 0.4),
        (Epsilon(0.4, 0.4, 0.0, 7.0), ActInfo(learned_from=False), 0.4**8),
        (Epsilon(share=0.0), ActInfo(learned_from=False), 0.05),
    ],
)
def test_epsilon(epsilon: Epsilon, info: ActInfo, probability: float) -> None:
    assert epsilon.at(info) == pytest.approx(probability)
    spec = spec_with(DISCRETE, VECTOR)
    module = QNetwork(spec, epsilon=epsilon)
    obs = {"observations": torch.zeros(20_000, *VECTOR.shape)}
    torch.manual_seed(0)
    other = module.act(obs, info)["actions"] != module.act(obs, GREEDY)["actions"]
    assert other.float().mean().item() == pytest.approx(probability * 3 / 4, abs=0.02)


def test_advantages_of_a_dueling_network_have_no_mean() -> None:
    spec = spec_with(DISCRETE, VECTOR)
    module, obs = QNetwork(spec, dueling=True), tensors(spec, 5)
    assert module.value is not None
    value = module.value(module.encoder(obs)).squeeze(1)
    torch.testing.assert_close(module(obs).mean(1), value)


@pytest.mark.parametrize("actions", [DISCRETE, BOX], ids=["discrete", "box"])
def test_critics_side_by_side_are_networks_of_their_own(actions: ActionSpec) -> None:
    spec = spec_with(actions, VECTOR)
    critics, obs = Critics(spec, (7, 5), count=3), tensors(spec, 4)
    chosen = torch.rand(4, 2) if actions is BOX else None
    found = critics(obs, chosen)
    x = obs["observations"] if chosen is None else torch.cat((obs["observations"], chosen), 1)
    for number, values in enumerate(found):
        layers = [
            (w[number].T, b[number])
            for w, b in zip(critics.layers.weights, critics.layers.biases, strict=True)
        ]
        hidden = x
        for weight, bias in layers[:-1]:
            hidden = (hidden @ weight + bias).relu()
        alone = hidden @ layers[-1][0] + layers[-1][1]
        torch.testing.assert_close(values, alone.squeeze(1) if actions is BOX else alone)
    assert np.ptp(found.detach().numpy(), 0).min() > 0
