"""A recurrent Q-network: what it finds in one go is what it acted by, step by step."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from spaces_for_tests import DISCRETE, MIXED, VECTOR, random_obs, spec_with

from artos.envs.spec import Part
from artos.policies.acting import ActInfo, Declared
from artos.policies.build import check_policy
from artos.policies.recurrent import MEMORY
from artos.policies.recurrent_values import RecurrentQNetwork

STEPS, WIDTH = 7, 3


@pytest.mark.parametrize("parts", [(VECTOR,), MIXED])
@pytest.mark.parametrize("dueling", [False, True])
def test_it_unrolls_what_it_acted(parts: tuple[Part, ...], dueling: bool) -> None:
    spec = spec_with(DISCRETE, *parts)
    torch.manual_seed(0)
    module = RecurrentQNetwork(spec, (16,), 8, dueling=dueling)
    assert check_policy(module, spec, Declared.by(RecurrentQNetwork, lambda: module)) == []
    ends = torch.from_numpy(np.random.default_rng(0).random((STEPS, WIDTH)) < 0.3)
    first = memory = torch.randn(WIDTH, 8)
    seen, best = [], []
    with torch.no_grad():
        for step in range(STEPS):
            found = random_obs(spec, WIDTH, step)
            obs = {name: torch.from_numpy(each) for name, each in found.items()}
            acted = module.act(obs, ActInfo(greedy=True, state={MEMORY: memory}))
            memory = acted[MEMORY] * ~ends[step].unsqueeze(1)
            seen.append(obs)
            best.append(acted["actions"])
        stacked = {name: torch.stack([obs[name] for obs in seen]) for name in seen[0]}
        values, after = module.unroll(stacked, {MEMORY: first}, ends)
    assert torch.equal(values.argmax(-1), torch.stack(best))
    torch.testing.assert_close(after[MEMORY], memory, rtol=1e-4, atol=1e-5)
