"""Policies that differ by noise: each environment is acted in by its own."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from artos.envs.spec import ActionSpec, EnvSpec, Part
from artos.policies.acting import ActInfo
from artos.policies.build import Policy, build_policy
from artos.policies.fast import make_actor
from artos.policies.flat import named_tensors
from artos.policies.perturbed import Perturbed

BOX = ActionSpec("box", (2,), low=(-1.0, -1.0), high=(1.0, 1.0))
FLAT = EnvSpec("toy", (Part("observations", (3,), "float32"),), BOX)
PICTURE = EnvSpec("toy", (Part("observations", (36, 36), "uint8", low=0, high=255),), BOX)
GREEDY = ActInfo(greedy=True)


@pytest.mark.parametrize("spec", [FLAT, PICTURE], ids=["numpy", "torch"])
def test_pairs_act_with_plus_and_minus_noise(spec: EnvSpec) -> None:
    """Statistics, which come after the parameters, are those that were bound."""
    module: Any = build_policy(Policy(hidden=(8,), normalize=spec is FLAT), spec, 1)
    flat = np.concatenate([t.detach().numpy().ravel() for t in named_tensors(module).values()])
    count = sum(each.numel() for each in module.parameters())
    assert (len(flat) > count) == (spec is FLAT)
    flat.flags.writeable = False
    rng = np.random.default_rng(2)
    noises = [rng.standard_normal(count, np.float32) for _ in range(2)]
    obs = {"observations": rng.integers(0, 255, (4, *spec.parts[0].shape))}
    obs = {name: part.astype(spec.parts[0].dtype) for name, part in obs.items()}
    perturbed = Perturbed([make_actor(copy.deepcopy(module), spec, 0) for _ in range(4)], count)
    perturbed.bind(flat)
    perturbed.perturb(noises, 0.1)
    found = perturbed.act(obs, GREEDY)["actions"]
    for env, (sign, noise) in enumerate(zip([1, -1] * 2, np.repeat(noises, 2, 0), strict=True)):
        other, at = copy.deepcopy(module), 0
        for each in other.parameters():
            step = torch.from_numpy(noise[at : at + each.numel()]).view(each.shape)
            each.data += sign * 0.1 * step
            at += each.numel()
        mine = {name: torch.from_numpy(part[env : env + 1]) for name, part in obs.items()}
        wanted = other.act(mine, GREEDY)["actions"].detach().numpy()[0]
        np.testing.assert_allclose(found[env], wanted, rtol=1e-4, atol=1e-5)
    assert len({*found[:, 0].tolist()}) == 4
    perturbed.perturb([0 * noise for noise in noises], 0.1)
    again = perturbed.act({name: part[:1].repeat(4, 0) for name, part in obs.items()}, GREEDY)
    assert np.ptp(again["actions"], 0).max() < 1e-6, "noise of the round before is gone"
