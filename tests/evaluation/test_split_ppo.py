"""PPO cut in two must learn what the one file learns, whatever carries rounds and weights."""

import math

import numpy as np
import pytest
import torch

from evaluation.baselines.one_file_ppo import SETTINGS, Loop, Settings
from evaluation.baselines.split_ppo import Learner, Sampler

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = Settings("cartpole", 2, 16, 2, 2, 0.2, 0.01)


def handed_over(weights):
    """A copy that cannot be written to, as shared memory hands it over."""
    copies = {name: value.copy() for name, value in weights.items()}
    for copy in copies.values():
        copy.setflags(write=False)
    return copies


def test_one_sampler_and_a_learner_learn_what_one_loop_learns():
    loop = Loop(SMALL, seed=1, threads=1)
    loop.act()
    loop.learn()
    learner = Learner(SMALL, seed=1, threads=1)
    sampler = Sampler(SMALL, seed=1)
    learner.take([sampler.sample(handed_over(learner.weights()))])
    learner.learn()
    for name, expected in loop.network.state_dict().items():
        assert torch.equal(torch.from_numpy(learner.weights()[name]), expected), name


def test_a_sampler_acts_with_the_weights_it_is_given():
    sampler = Sampler(SMALL, seed=1)
    weights = Learner(SMALL, seed=2, threads=1).weights()
    found = sampler.sample({name: np.zeros_like(value) for name, value in weights.items()})
    assert found.rows["log_probs"] == pytest.approx(-math.log(2))
    assert np.all(found.rows["values"] == 0)


def test_rounds_lie_side_by_side():
    learner = Learner(SMALL, seed=1, threads=1)
    rounds = [Sampler(SMALL, seed).sample(learner.weights()) for seed in (1, 2, 3)]
    learner.take(rounds)
    assert learner.settings.batch == 3 * SMALL.batch
    for name, tensor in vars(learner.rollout).items():
        parts = zip(tensor.split(SMALL.envs, 1), rounds, strict=True)
        assert all(np.array_equal(part, found.rows[name]) for part, found in parts), name
    assert np.array_equal(learner.observation[2:4], rounds[1].observation)
    assert np.array_equal(learner.done[2:4], rounds[1].done)


def test_the_number_of_samplers_may_change():
    learner = Learner(SMALL, seed=1, threads=1)
    samplers = [Sampler(SMALL, seed) for seed in (1, 2)]
    for number in (1, 2, 1):
        before = handed_over(learner.weights())
        learner.take([sampler.sample(before) for sampler in samplers[:number]])
        learner.learn()
        assert learner.rollout.rewards.shape == (SMALL.steps, SMALL.envs * number)
        assert any(not np.array_equal(v, before[n]) for n, v in learner.weights().items())


def test_pictures_stay_bytes_and_weights_come_in_one_piece():
    settings = Settings("pong-ale", 1, 4, 1, 1, SETTINGS["pong-ale"].clip, 0.01)
    learner, sampler = Learner(settings, seed=1, threads=1), Sampler(settings, seed=1)
    weights = handed_over(learner.weights())
    learner.take([sampler.sample(weights)])
    learner.learn()
    assert learner.rollout.observations.shape == (4, 1, 4, 84, 84)
    assert learner.rollout.observations.dtype == torch.uint8
    assert all(value.flags.c_contiguous for value in learner.weights().values())
