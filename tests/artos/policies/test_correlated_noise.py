"""Noise of continuous actions that lasts from step to step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from spaces_for_tests import VECTOR, random_obs, spec_with
from torch.distributions import Normal

from artos.envs.spec import ActionSpec
from artos.errors import Refused
from artos.policies.acting import ActInfo
from artos.policies.build import Policy
from artos.policies.distributions import DiagGaussian, GaussianSampler
from artos.policies.fast import make_actor
from artos.policies.flat import named_tensors
from artos.policies.recurrent import RecurrentActorCritic

BOX = ActionSpec("box", (2,), (), (-1.0, -1.0), (1.0, 1.0))
STEPS, ROWS = 4_000, 8
MEAN, LOG_STD = np.array([1.0, -2.0], np.float32), np.array([0.5, -1.0], np.float32)
Drawn = tuple[NDArray[np.float32], NDArray[np.float32]]


def by_torch(correlation: float) -> Callable[[], Drawn]:
    head, generator = DiagGaussian((2,), correlation), torch.Generator().manual_seed(0)
    head.log_std.data = torch.from_numpy(LOG_STD)
    out = torch.from_numpy(MEAN).expand(ROWS, -1)

    @torch.no_grad()
    def draw() -> Drawn:
        actions, logs = head.sample(out, generator)
        return actions.numpy(), logs.numpy()

    return draw


def by_numpy(correlation: float) -> Callable[[], Drawn]:
    sampler = GaussianSampler((2,), ROWS, np.random.default_rng(0), correlation)
    return lambda: sampler(np.tile(MEAN, (ROWS, 1)), {"head.log_std": LOG_STD})


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("make", [by_torch, by_numpy])
def test_steps_are_correlated_and_each_is_normal(
    make: Callable[[float], Callable[[], Drawn]], correlation: float
) -> None:
    draw = make(correlation)
    drawn = [draw() for _ in range(STEPS)]
    actions, logs = (np.stack(each) for each in zip(*drawn, strict=True))
    normal = Normal(torch.from_numpy(MEAN), torch.from_numpy(LOG_STD).exp())
    wanted = normal.log_prob(torch.from_numpy(actions)).sum(-1).numpy()
    np.testing.assert_allclose(logs, wanted, rtol=1e-4, atol=1e-4)
    noise = (actions - MEAN) / np.exp(LOG_STD)  # (STEPS, ROWS, 2)
    assert noise.mean() == pytest.approx(0, abs=0.06)
    assert noise.var() == pytest.approx(1, abs=0.06)
    assert (noise[0] ** 2).mean() > 0.2, "the first step is drawn like all others"
    for lag in (1, 2):
        found = (noise[lag:] * noise[:-lag]).mean()
        assert found == pytest.approx(correlation**lag, abs=0.06)
    # Rows and columns are independent of each other.
    assert np.abs((noise[:, 1:] * noise[:, :-1]).mean()) < 0.06
    assert np.abs((noise[..., 0] * noise[..., 1]).mean()) < 0.06


def test_only_sampling_moves_the_noise() -> None:
    """Neither greedy actions nor the values of final observations, of which there are fewer."""
    spec = spec_with(BOX, VECTOR)
    module = Policy(correlation=0.8).build(spec, 0)
    flat = np.concatenate([t.detach().numpy().ravel() for t in named_tensors(module).values()])
    alone, disturbed = (make_actor(module, spec, 1) for _ in range(2))
    obs, few = random_obs(spec, ROWS, 0), random_obs(spec, 3, 1)
    for actor in (alone, disturbed):
        actor.bind(flat)
    drawn = []
    for _ in range(3):
        wanted = alone.act(obs, ActInfo())["actions"].copy()
        drawn.append(wanted)
        np.testing.assert_array_equal(disturbed.act(obs, ActInfo())["actions"], wanted)
        greedy = disturbed.act(obs, ActInfo(greedy=True))["actions"]
        assert np.abs(greedy - wanted).max() > 0.1
        disturbed.values(few, ActInfo())
    assert np.corrcoef(drawn[0].ravel(), drawn[1].ravel())[0, 1] > 0.3


@pytest.mark.parametrize("correlation", [-0.1, 1.0, float("nan")])
def test_what_is_no_correlation_is_refused(correlation: float) -> None:
    spec = spec_with(BOX, VECTOR)
    with pytest.raises(Refused, match="use 0 to below 1"):
        Policy(correlation=correlation).build(spec, 0)
    with pytest.raises(Refused, match="use 0 to below 1"):
        RecurrentActorCritic(spec, correlation=correlation)
