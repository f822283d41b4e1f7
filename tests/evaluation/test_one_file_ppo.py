"""The floor we are held against must be an honest PPO."""

import pytest
import torch

from evaluation.baselines.one_file_ppo import SETTINGS, Loop, Rollout, Settings, train


def test_advantages_by_hand():
    # One environment, three steps; an episode ends with the first action (done opens row 1).
    rollout = Rollout(Settings("cartpole", 1, 3, 1, 1, 0.2, 0.0), (1,), torch.float32)
    rollout.rewards[:, 0] = torch.tensor([1.0, 2.0, 3.0])
    rollout.values[:, 0] = torch.tensor([0.5, 0.25, 0.125])
    rollout.dones[:, 0] = torch.tensor([0.0, 1.0, 0.0])
    found = rollout.advantages(torch.tensor([4.0]), torch.tensor([0.0]))[:, 0].tolist()
    last = 3.0 + 0.99 * 4.0 - 0.125
    middle = 2.0 + 0.99 * 0.125 - 0.25 + 0.99 * 0.95 * last
    assert found == pytest.approx([1.0 - 0.5, middle, last])


def test_an_episode_that_just_ended_is_not_bootstrapped():
    rollout = Rollout(Settings("cartpole", 1, 1, 1, 1, 0.2, 0.0), (1,), torch.float32)
    rollout.rewards[0, 0] = 1.0
    found = rollout.advantages(torch.tensor([100.0]), torch.tensor([1.0]))
    assert found.tolist() == [[1.0]]


@pytest.mark.long
def test_it_learns(one_thread):
    loop = Loop(SETTINGS["cartpole"], seed=1, threads=1)
    loop.act()
    untrained = sum(loop.returns) / len(loop.returns)
    assert train(loop, 40_960) > 2 * untrained


def test_it_uses_the_common_hyper_parameters():
    for name in ("cartpole", "pong", "pong-ale"):
        settings = SETTINGS[name]
        assert (settings.batch, settings.batch // settings.minibatches) == (1024, 256)
        assert (settings.epochs, settings.learning_rate) == (4, 2.5e-4)
