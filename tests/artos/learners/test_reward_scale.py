"""The scale of rewards: the deviation of returns, environment by environment, over all rounds."""

from __future__ import annotations

import numpy as np
import torch

from artos.learners.reward_scale import RewardScale


def test_it_is_the_deviation_of_discounted_returns() -> None:
    rng, gamma = np.random.default_rng(0), 0.9
    scale, running, seen = RewardScale(3, 2, gamma), np.zeros((3, 2)), []
    assert scale() == 1
    for actors in ((0, 1, 2), (2,), (0, 2), (1,)):
        rewards = rng.normal(1, 2, (len(actors), 5, 2)).astype(np.float32)
        ends = rng.random((len(actors), 5, 2)) < 0.3
        scale.update(actors, torch.from_numpy(rewards), torch.from_numpy(ends))
        for number, actor in enumerate(actors):
            for env in range(2):
                for reward, end in zip(rewards[number, :, env], ends[number, :, env], strict=True):
                    running[actor, env] = gamma * running[actor, env] + reward
                    seen.append(running[actor, env])
                    running[actor, env] *= not end
        torch.testing.assert_close(scale().item(), float(np.std(seen)), rtol=1e-4, atol=0)
        np.testing.assert_allclose(scale.returns, running, rtol=1e-4, atol=1e-5)


def test_rows_that_only_reset_are_no_steps() -> None:
    """An environment that spends a row on each reset has the scale of one that spends none."""
    rng = np.random.default_rng(0)
    rewards = torch.from_numpy(rng.integers(3, 5, (1, 64, 4)).astype(np.float32))
    plain, resetting = RewardScale(1, 4, 0.99), RewardScale(1, 4, 0.99)
    plain.update([0], rewards, torch.ones_like(rewards, dtype=torch.bool))
    spaced = torch.zeros(1, 128, 4)
    spaced[:, ::2] = rewards
    valid = torch.zeros(1, 128, 4, dtype=torch.bool)
    valid[:, ::2] = True
    resetting.update([0], spaced, valid, valid)
    torch.testing.assert_close(resetting().item(), plain().item())
    torch.testing.assert_close(resetting.moments, plain.moments)


def test_a_round_of_resets_alone_changes_nothing() -> None:
    scale = RewardScale(1, 2, 0.99)
    none = torch.zeros(1, 3, 2, dtype=torch.bool)
    scale.update([0], torch.zeros(1, 3, 2), none, none)
    assert scale.moments.tolist() == [0.0, 1.0, 0.0]


def test_one_return_has_no_deviation() -> None:
    scale = RewardScale(1, 1, 0.9)
    one = torch.full((1, 1, 1), 7.0)
    scale.update([0], one, one > 8)
    assert scale() == 1
    scale.update([0], one, one > 8)
    torch.testing.assert_close(scale().item(), float(np.std([7.0, 0.9 * 7 + 7])))


def test_no_row_changes_nothing() -> None:
    scale = RewardScale(1, 1, 0.9)
    one = torch.ones((1, 1, 1))
    scale.update([0], one, one < 0, one < 0)
    assert scale.moments.tolist() == [0, 1, 0]
