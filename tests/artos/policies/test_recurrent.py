"""A recurrent policy: what it evaluates in one go is what it acted step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpies
from spaces_for_tests import ACTIONS, DISCRETE, FLAT, MIXED, VECTOR, random_obs, spec_with

from artos.envs.spec import ActionSpec, Part
from artos.policies.acting import ActInfo, Declared
from artos.policies.build import check_policy
from artos.policies.fast import make_actor
from artos.policies.flat import named_tensors
from artos.policies.recurrent import MEMORY, RecurrentActorCritic, episodes

STEPS, WIDTH = 7, 3


@pytest.mark.parametrize("parts", [(VECTOR,), FLAT, MIXED])
@pytest.mark.parametrize("actions", ACTIONS, ids=[a.kind for a in ACTIONS])
def test_it_evaluates_what_it_acted(actions: ActionSpec, parts: tuple[Part, ...]) -> None:
    spec = spec_with(actions, *parts)
    torch.manual_seed(0)
    module = RecurrentActorCritic(spec, (16,), 8)
    with torch.no_grad():
        for each in module.parameters():
            each.add_(0.2 * torch.randn_like(each))
    declared = Declared.by(RecurrentActorCritic, lambda: module)
    assert check_policy(module, spec, declared) == []
    actor = make_actor(module, spec, 1)
    tensors = named_tensors(module).values()
    actor.bind(np.concatenate([t.detach().numpy().ravel() for t in tensors]))
    ends = np.random.default_rng(0).random((STEPS, WIDTH)) < 0.3
    memory = np.random.default_rng(1).normal(size=(WIDTH, 16)).astype(np.float32)
    first, rows = memory.copy(), []
    for step in range(STEPS):
        obs: Any = random_obs(spec, WIDTH, step)
        found = actor.act(obs, ActInfo(state={MEMORY: memory}))
        values = actor.values(obs, ActInfo(state={MEMORY: memory}))
        np.testing.assert_allclose(values, found["values"], rtol=1e-5, atol=1e-5)
        rows.append((obs, {name: value.copy() for name, value in found.items()}))
        memory = np.where(ends[step][:, None], 0, found[MEMORY]).astype(np.float32)
    stacked = {
        name: torch.from_numpy(np.stack([obs[name] for obs, _ in rows])) for name in rows[0][0]
    }
    acted = torch.from_numpy(np.stack([found["actions"] for _, found in rows]))
    with torch.no_grad():
        logs, entropy, values = module.evaluate(
            stacked, acted, {MEMORY: torch.from_numpy(first)}, torch.from_numpy(ends)
        )
    assert entropy.shape == (STEPS, WIDTH)
    for name, whole in (("log_probs", logs), ("values", values)):
        wanted = np.stack([found[name] for _, found in rows])
        np.testing.assert_allclose(whole.numpy(), wanted, rtol=1e-3, atol=1e-4)


@given(ends=numpies.arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 5))))
@settings(max_examples=200, deadline=None)
def test_pieces_are_the_episodes_and_every_step_is_in_one(ends: np.ndarray) -> None:
    steps, width = ends.shape
    cut = episodes(torch.from_numpy(ends))
    pieces: list[list[int]] = []
    columns: list[int] = []
    for column in range(width):
        for step in range(steps):
            if step == 0 or ends[step - 1, column]:
                pieces.append([])
                columns.append(column if step == 0 else -1)
            pieces[-1].append(step * width + column)
    assert cut.first.tolist() == columns
    longest = max(map(len, pieces))
    padded = [piece + [piece[-1]] * (longest - len(piece)) for piece in pieces]
    assert cut.where.t().tolist() == padded
    flat = cut.where.reshape(-1)[cut.back]
    assert flat.tolist() == list(range(steps * width))
    within = {number: at for piece in pieces for at, number in enumerate(piece)}
    assert (cut.back // len(pieces)).tolist() == [within[n] for n in range(steps * width)]


def test_gradients_stop_where_an_episode_begins() -> None:
    spec = spec_with(DISCRETE, VECTOR)
    module = RecurrentActorCritic(spec, (8,), 4)
    obs = torch.randn(4, 1, *VECTOR.shape, requires_grad=True)
    ends = torch.tensor([[False], [True], [False], [False]])
    state = {MEMORY: torch.ones(1, 8, requires_grad=True)}
    _, values = module.unroll({"observations": obs}, state, ends)
    (gradient, before) = torch.autograd.grad(values[3].sum(), (obs, state[MEMORY]))
    assert not gradient[:2].any()
    assert gradient[2:].all()
    assert not before.any()
