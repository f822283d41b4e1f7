"""What environments pay for other goals, asked as their code allows; and those that cannot say."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from artos.envs.goal_rewards import GoalRewards, goal_faults
from artos.envs.make import describe

HERE = __name__


class Line(gym.Env[Any, Any]):
    """Goes along a line of places numbered from 3 on, as a category or as a number."""

    action_space = spaces.Discrete(2)

    def __init__(self, goal: spaces.Space[Any], wanted: spaces.Space[Any] | None = None) -> None:
        self.calls = 0
        self.observation_space = spaces.Dict(
            observation=goal, achieved_goal=goal, desired_goal=wanted or goal
        )

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at = 5
        return self.seen(), {}

    def seen(self) -> dict[str, Any]:
        there: Any = self.observation_space
        now: Any = np.array([self.at], np.float64)
        wanted: Any = np.full(there["desired_goal"].shape, 6.0)
        if isinstance(there["achieved_goal"], spaces.Discrete):
            now, wanted = self.at, 6
        return {"observation": now, "achieved_goal": now, "desired_goal": wanted}

    def step(self, action: int) -> Any:
        self.at = min(7, max(3, self.at + 2 * action - 1))
        return self.seen(), -abs(self.at - 6.0), self.at == 6, False, {}

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        self.calls += 1
        assert info == {}
        return -np.abs(achieved_goal - desired_goal).sum(-1)

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        assert achieved_goal.dtype == np.float64
        return bool(np.linalg.norm(achieved_goal - desired_goal) < 0.5)  # one bool for many


class Places(Line):
    """Categories: its rewards are those of one goal."""

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        assert achieved_goal >= 3
        return -abs(float(achieved_goal) - desired_goal)

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return achieved_goal == desired_goal


class Greedy(gym.Wrapper[Any, Any, Any, Any]):
    """Pays twice as much as its environment says."""

    def step(self, action: Any) -> Any:
        obs, reward, *others = self.env.step(action)
        return (obs, 2.0 * float(reward), *others)


class Informed(Line):
    """Its reward needs what only ``info`` has."""

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return info["force"]


class Mute(gym.Wrapper[Any, Any, Any, Any]):
    """Does not say what it pays."""

    def has_wrapper_attr(self, name: str) -> bool:
        return name != "compute_reward" and super().has_wrapper_attr(name)


class Ends(Line):
    """Says of every goal that it ends the episode."""

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return True


PLANE = spaces.Box(0, 9, (1,), np.float64)


def line() -> gym.Env[Any, Any]:
    return gym.wrappers.TimeLimit(Line(PLANE), 4)


def places() -> gym.Env[Any, Any]:
    return Places(spaces.Discrete(5, start=3))


def unlike() -> gym.Env[Any, Any]:
    return Line(PLANE, spaces.Box(0, 9, (2,), np.float64))


def greedy() -> gym.Env[Any, Any]:
    return Greedy(line())


def informed() -> gym.Env[Any, Any]:
    return Informed(PLANE)


def mute() -> gym.Env[Any, Any]:
    return Mute(line())


def ends() -> gym.Env[Any, Any]:
    return Ends(PLANE)


def asked(make: Callable[[], Any]) -> GoalRewards:
    env = f"{HERE}:{make.__name__}"
    assert goal_faults(env, describe(env), 1) == []
    return GoalRewards(env, describe(env), 1)


def test_many_at_once_where_that_gives_what_one_by_one_does() -> None:
    goals = asked(line)
    reached = np.array([[3], [5], [6], [6]], np.float32)
    wanted = np.array([[6], [5], [6], [7]], np.float32)
    env: Any = goals._vector.envs[0].unwrapped  # type: ignore[attr-defined]
    for calls in (5, 1, 1):  # at first both ways
        before = env.calls
        found = goals.rewards(reached, wanted)
        np.testing.assert_array_equal(found, [-3, 0, 0, -1])
        assert found.dtype == np.float32
        assert env.calls == before + calls
        over = goals.terminations(reached, wanted)
        np.testing.assert_array_equal(over, [False, True, True, False])
    np.testing.assert_array_equal(goals.rewards(reached[:1], wanted[:1]), [-3])


def test_categories_are_the_environments_own_numbers() -> None:
    goals = asked(places)
    reached, wanted = np.array([0, 2, 4]), np.array([3, 2, 0])
    for _ in range(2):
        np.testing.assert_array_equal(goals.rewards(reached, wanted), [-3, 0, -4])
        over = goals.terminations(reached, wanted)
        np.testing.assert_array_equal(over, [False, True, False])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("unlike", "differ in shape, dtype or categories"),
        ("greedy", "its step pays -4 where its compute_reward says -2: let both say"),
        ("informed", r"fails with an empty info, as no row has one \(KeyError: 'force'\)"),
        ("mute", r"has no compute_reward\(achieved_goal, desired_goal, info\)"),
        ("ends", "its compute_terminated ends an episode that its step does not"),
    ],
)
def test_those_that_cannot_be_relabelled(name: str, words: str) -> None:
    env = f"{HERE}:{name}"
    (fault,) = goal_faults(env, describe(env), 1)
    assert fault.startswith("her relabels goals by what was reached later, and ")
    assert env in fault
    assert "set her=0" in fault
    assert re.search(words, fault)
