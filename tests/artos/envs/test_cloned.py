"""An environment goes on from a state as the one that it is of, whatever it has done since."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from artos.envs.cloned import put_state, state_of
from artos.errors import NotBranched


class Own(gym.Env[Any, Any]):
    """Counts, and holds what cannot be pickled."""

    observation_space = spaces.Box(0, 100, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.count, self.held = 0, (each for each in ())

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        return np.full(1, self.count, np.float32), 1.0, False, False, {}


class WithPair(Own):
    def clone_state(self) -> int:
        return self.count

    def restore_state(self, state: int) -> None:
        self.count = state


def limited(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    return gym.wrappers.TimeLimit(env, 30)


def atari() -> gym.Env[Any, Any]:
    ale_py = pytest.importorskip("ale_py")
    gym.register_envs(ale_py)
    made = gym.make("ALE/Breakout-v5")  # with sticky actions, which are random
    return gym.wrappers.FrameStackObservation(gym.wrappers.GrayscaleObservation(made), 2)


MADE = {
    "pickled": lambda: gym.make("CartPole-v1", max_episode_steps=30),
    "random": lambda: gym.make("FrozenLake-v1", is_slippery=True),
    "pair": lambda: limited(WithPair()),
    "atari": atari,
}


def steps(env: gym.Env[Any, Any], actions: list[int]) -> list[Any]:
    found = []
    for action in actions:
        obs, reward, terminated, truncated, _ = env.step(action)
        found.append((np.asarray(obs).tolist(), float(reward), terminated, truncated))
        if terminated or truncated:
            break
    return found


@pytest.mark.parametrize("kind", MADE)
def test_it_goes_on_as_the_one_that_the_state_is_of(kind: str) -> None:
    one, other = MADE[kind](), MADE[kind]()
    one.reset(seed=3)
    other.reset(seed=4)
    steps(one, [0, 1, 0])
    state = state_of(one)
    choices = 4 if kind == "atari" else 2  # of these, the first two do nothing in Breakout
    actions = np.random.default_rng(1).integers(choices, size=40).tolist()
    expected = steps(one, actions)
    steps(other, [1])
    for env in (other, one, other):
        put_state(env, state)
        assert steps(env, actions) == expected
    assert len(expected) > 1
    one.close()
    other.close()


def test_two_that_go_on_from_one_state_share_nothing() -> None:
    one, other = MADE["pickled"](), MADE["pickled"]()
    one.reset(seed=3)
    other.reset(seed=3)
    put_state(other, state_of(one))
    assert other.unwrapped.np_random is not one.unwrapped.np_random
    before = np.array(other.unwrapped.state)  # type: ignore[attr-defined]
    one.step(0)
    np.testing.assert_array_equal(other.unwrapped.state, before)  # type: ignore[attr-defined]


def test_what_cannot_be_cloned_is_named_with_the_cure() -> None:
    with pytest.raises(NotBranched, match=r"Own cannot be cloned .*clone_state\(\)"):
        state_of(limited(Own()))
