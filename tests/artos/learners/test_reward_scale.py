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
