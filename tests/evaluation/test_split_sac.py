"""SAC cut in two must learn, and be the one that ARTOS has: networks, sizes and numbers."""

from __future__ import annotations

import inspect

import gymnasium as gym
import numpy as np
import pytest
import torch

from artos.actors.rollout import RolloutActor
from artos.policies.squashed import SquashedGaussian
from evaluation.baselines.split_sac import Learner, Policy, Replay, Sampler, Settings
from triggers.algorithms import sac

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = Settings(steps=50, batch=32, hidden=(32,), lr=1e-2)
OBSERVATION, ACTION, REWARD, ENDED = slice(0, 3), 3, 4, 5
AFTER = slice(6, 9)


def test_every_size_is_the_one_of_artos_run_sac() -> None:
    parameters, settings = inspect.signature(sac.workload).parameters, Settings()
    for name in ("env", "steps", "batch", "hidden", "gamma", "lr", "tau", "sync"):
        assert getattr(settings, name) == parameters[name].default, name
    alike = ("critic_lr", "temperature_lr")
    assert all(parameters[name].default == settings.lr for name in alike)
    assert (parameters["envs"].default, parameters["temperature"].default) == (1, 1.0)


def test_the_policy_is_that_of_artos() -> None:
    ours = SquashedGaussian(RolloutActor("Pendulum-v1", None, 1).spec, (32,))
    theirs, observations = Policy(3, 1, (32,)), torch.randn(5, 3)
    theirs.layers.load_state_dict(ours.layers.state_dict())
    torch.manual_seed(1)
    wanted = ours.sample({"observations": observations})
    torch.manual_seed(1)
    for found, expected in zip(theirs(observations), wanted, strict=True):
        assert torch.allclose(found, expected, atol=1e-5)


def test_updates_are_due_by_the_ratio() -> None:
    due = [Settings().updates(number) for number in (0, 500, 503, 504, 3000)]
    assert due == [0, 0, 0, 1, 625]


def test_rows_follow_each_other_and_a_truncated_episode_keeps_its_last_observation() -> None:
    sampler = Sampler(SMALL, seed=1)
    rounds = [sampler.sample({}, -1, random=True) for _ in range(8)]
    rows = np.concatenate([found.rows for found in rounds])
    follows = (rows[:-1, AFTER] == rows[1:, OBSERVATION]).all(1)
    assert np.flatnonzero(~follows).tolist() == [199]
    assert not rows[:, ENDED].any()
    assert np.abs(rows[:, ACTION]).max() <= 1
    returns = [each for found in rounds for each in found.returns]
    assert returns == pytest.approx([rows[:200, REWARD].sum(), rows[200:, REWARD].sum()], rel=1e-3)


def test_a_sampler_acts_with_the_weights_it_is_given_in_the_range_of_the_environment() -> None:
    sampler = Sampler(SMALL, seed=1)
    weights = {n: np.zeros_like(v) for n, v in Learner(SMALL, seed=1).weights().items()}
    weights["layers.2.bias"][:] = (0.5, -20.0)  # no deviation
    rows = sampler.sample(weights, 0, random=False).rows
    assert rows[:, ACTION] == pytest.approx(np.tanh(0.5))
    env = gym.make("Pendulum-v1")
    env.reset()
    env.unwrapped.state = np.array([np.arctan2(rows[0, 1], rows[0, 0]), rows[0, 2]])
    assert env.step(2 * rows[0, [ACTION]])[0] == pytest.approx(rows[0, AFTER], abs=1e-4)


def test_the_oldest_transitions_make_room() -> None:
    replay = Replay(4, 3, 1)
    for first in (0, 3):
        replay.add(np.repeat(np.arange(first, first + 3, dtype=np.float32)[:, None], 9, 1))
    assert len(replay) == 4
    assert set(replay.draw(200)[2][:, 0].tolist()) == {2.0, 3.0, 4.0, 5.0}


def test_an_update_moves_everything_and_the_targets_a_little() -> None:
    learner = Learner(SMALL, seed=1)
    learner.replay.add(Sampler(SMALL, seed=1).sample({}, -1, random=True).rows)
    before = [parameter.clone() for parameter in learner.targets.parameters()]
    policy = {name: value.copy() for name, value in learner.weights().items()}
    learner.learn()
    assert all(not np.array_equal(v, policy[n]) for n, v in learner.weights().items())
    assert learner.log_temperature.item() != 0
    for old, target, critic in zip(
        before, learner.targets.parameters(), learner.critics.parameters(), strict=True
    ):
        assert torch.allclose(target, torch.lerp(old, critic, SMALL.tau))


def test_it_finds_the_action_that_pays() -> None:
    """One step each, so that the value is the reward: best is 0.5."""
    learner, generator = Learner(SMALL, seed=1), np.random.default_rng(1)
    rows = np.zeros((500, 9), np.float32)
    rows[:, ACTION] = generator.uniform(-1, 1, 500)
    rows[:, REWARD], rows[:, ENDED] = -20 * (rows[:, ACTION] - 0.5) ** 2, 1
    learner.replay.add(rows)
    for _ in range(600):
        learner.learn()
    actions, logs = learner.policy(torch.zeros(500, 3))
    assert actions.mean().item() == pytest.approx(0.5, abs=0.15)
    assert -logs.mean().item() == pytest.approx(-1, abs=0.5)  # the entropy that is wanted
