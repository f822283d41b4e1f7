"""A built-in policy made of ordinary layers gives what the original gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from spaces_for_tests import ACTIONS, FLAT, MIXED, STACKED, VECTOR, random_obs, spec_with

from artos.envs.spec import ActionSpec, Part
from artos.policies.acting import ActInfo
from artos.policies.actor_critic import ActorCritic
from artos.policies.build import Policy
from artos.policies.encoders import Normalizer
from artos.policies.inputs import can_be_scaled
from artos.policies.plain import PlainActorCritic, plain
from artos.policies.values import QNetwork


def pair(
    actions: ActionSpec, *parts: Part, apart: bool = False
) -> tuple[ActorCritic, PlainActorCritic]:
    """A policy with weights of no particular form, and the same in ordinary layers."""
    spec = spec_with(actions, *parts)
    built = Policy(hidden=(16, 8), normalize=can_be_scaled(spec), apart=apart)
    trained = built.build(spec, seed=3)
    torch.manual_seed(4)
    for module in trained.modules():
        if isinstance(module, Normalizer):
            obs = random_obs(trained.spec, 50, 1).items()
            module.update({name: torch.from_numpy(part) for name, part in obs})
    with torch.no_grad():
        for weight in trained.parameters():
            weight.add_(0.05 * torch.randn_like(weight))
    return trained, PlainActorCritic(trained)


@pytest.mark.parametrize("actions", ACTIONS)
@pytest.mark.parametrize("parts", [(VECTOR,), FLAT, MIXED, (STACKED,)])
@pytest.mark.parametrize("apart", [False, True])
def test_outputs_are_the_same(apart: bool, actions: ActionSpec, parts: tuple[Part, ...]) -> None:
    trained, plain = pair(actions, *parts, apart=apart)
    obs = {n: torch.from_numpy(p) for n, p in random_obs(trained.spec, 64, 5).items()}
    with torch.inference_mode():
        for ours, theirs in zip(plain(obs), trained(obs), strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)
        ours, theirs = (each.act(obs, ActInfo(greedy=True)) for each in (plain, trained))
    for name in ("actions", "log_probs", "values"):
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-4)


def test_names_are_those_of_ordinary_layers() -> None:
    _, plain = pair(ACTIONS[2], VECTOR)
    shapes = {name: tuple(weight.shape) for name, weight in plain.state_dict().items()}
    assert shapes == {
        "normalizer.mean": (5,), "normalizer.var": (5,), "normalizer.count": (1,),
        "head.log_std": (2,),
        "policy.0.weight": (16, 5), "policy.0.bias": (16,),
        "policy.2.weight": (8, 16), "policy.2.bias": (8,),
        "policy.4.weight": (2, 8), "policy.4.bias": (2,),
        "value.0.weight": (16, 5), "value.0.bias": (16,),
        "value.2.weight": (8, 16), "value.2.bias": (8,),
        "value.4.weight": (1, 8), "value.4.bias": (1,),
    }  # fmt: skip


def test_pictures_have_ordinary_convolutions() -> None:
    _, plain = pair(ACTIONS[0], STACKED)
    shapes = {name: tuple(weight.shape) for name, weight in plain.state_dict().items()}
    assert shapes["cnn.0.0.weight"] == (32, 4, 8, 8)
    assert shapes["cnn.0.7.weight"] == (512, 64 * 7 * 7)
    assert shapes["policy.0.weight"] == (4, 512)


def test_parameters_that_are_not_taken_over_are_noticed() -> None:
    trained, _ = pair(ACTIONS[0], VECTOR)
    trained.register_buffer("mean", torch.zeros(5))
    with pytest.raises(AssertionError, match="unknown here"):
        PlainActorCritic(trained)


def test_other_built_in_policies_have_ordinary_convolutions_too() -> None:
    torch.manual_seed(1)
    spec = spec_with(ACTIONS[0], *MIXED)
    obs = {n: torch.from_numpy(p) for n, p in random_obs(spec, 16, 5).items()}
    trained = QNetwork(spec)
    with torch.inference_mode():
        before = trained(obs)
        made = plain(trained)
        torch.testing.assert_close(made(obs), before, atol=1e-5, rtol=1e-4)
    assert made.state_dict()["encoder.nets.0.0.weight"].shape == (32, 3, 8, 8)
