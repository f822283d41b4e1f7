"""Whatever an environment does with arrays: what is stored and handed over is what was meant."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st
from keeping_envs import ACTIONS, OBSERVATIONS, Habits, Keeping, KeepingVector

from artos.envs.serial import SerialVectorEnv
from artos.envs.shown import at
from artos.envs.spec import leaves
from artos.envs.stepper import Stepper

ENVS, STEPS = 2, 14
MODES = list(AutoresetMode)


def by_hand(habits: Habits, env: int, actions: list[Any]) -> list[tuple[Any, ...]]:
    """Transitions of one environment in a plain loop of Gymnasium; everything is copied."""
    made = Keeping(habits)
    seen, rows = _flat(made, made.reset(seed=env)[0]), []
    for action in actions:
        after, reward, ended, cut, _ = made.step(np.array(action)[()])
        after = _flat(made, after)
        rows.append((seen, np.array(action), float(np.ravel(reward)[0]), after, ended, cut))
        seen = _flat(made, made.reset()[0]) if ended or cut else after
    return rows


def _flat(env: gym.Env[Any, Any], obs: Any) -> list[float]:
    """All numbers of an observation, categories from 0."""
    found: list[float] = []
    for path, space in leaves(env.observation_space):
        part = np.array(at(obs, path, ""), np.float64) - getattr(space, "start", 0)
        found += part.ravel().tolist()
    return found


def stepped(stepper: Stepper, stored: np.ndarray) -> list[list[tuple[Any, ...]]]:
    """The same transitions as a learner sees them, by environment; ``stored`` (T, E, …)."""
    rows: list[list[tuple[Any, ...]]] = [[] for _ in range(stepper.envs)]
    obs = _rows(stepper.reset(0))
    for actions in stored:
        given = actions.copy()
        step = stepper.step(given)
        assert np.array_equal(given, actions), "the policy's own array was written into"
        after = _rows(step.obs)
        final = {} if step.final is None else dict(zip(step.ended, _rows(step.final), strict=True))  # type: ignore[arg-type]
        for env in range(stepper.envs):
            if step.valid[env]:
                row = (
                    obs[env], actions[env].copy(), float(step.rewards[env]),
                    final.get(env, after[env]), bool(step.terminations[env]),
                    bool(step.truncations[env]),
                )  # fmt: skip
                rows[env].append(row)
        obs = after
    return rows


def _rows(parts: dict[str, Any]) -> list[list[float]]:
    envs = len(next(iter(parts.values())))
    return [
        [x for part in parts.values() for x in np.ravel(part[env]).astype(float).tolist()]
        for env in range(envs)
    ]


def single(habits: Habits) -> Any:
    return SerialVectorEnv([partial(Keeping, habits)] * ENVS)


def waiting(habits: Habits) -> Any:
    return SerialVectorEnv([partial(Keeping, habits)] * ENVS, AutoresetMode.NEXT_STEP)


def vector(mode: AutoresetMode) -> Callable[[Habits], Any]:
    return lambda habits: KeepingVector(habits, ENVS, mode)


WAYS = {"single": single, "waiting": waiting, **{mode.name: vector(mode) for mode in MODES}}
habits = st.builds(
    Habits,
    observations=st.sampled_from(sorted(OBSERVATIONS)),
    actions=st.sampled_from(sorted(ACTIONS)),
    reuses=st.booleans(), keeps=st.booleans(), writes=st.booleans(), lists=st.booleans(),
    truncates=st.booleans(), length=st.integers(1, 5),
)  # fmt: skip


@settings(max_examples=120)
@given(habits=habits, way=st.sampled_from(sorted(WAYS)), seed=st.integers(0, 99))
def test_a_learner_sees_what_a_plain_loop_sees(habits: Habits, way: str, seed: int) -> None:
    if way not in ("single", "waiting") and habits.observations in ("dict", "tuple", "discrete"):
        return  # KeepingVector has one array
    stepper = Stepper(WAYS[way](habits))
    actions = stepper.spec.actions
    rng = np.random.default_rng(seed)
    shape = (STEPS, ENVS, *actions.shape)
    if actions.kind == "box":
        stored = rng.normal(0, 2, shape).astype(np.float32)
    else:
        stored = rng.integers(0, np.array(actions.sizes).reshape(actions.shape), shape)
    for env, rows in enumerate(stepped(stepper, stored)):
        assert rows
        expected = by_hand(habits, env, [_meant(stepper, row[1]) for row in rows])
        for mine, theirs in zip(rows, expected, strict=True):
            before, _, reward, after, ended, cut = mine
            assert (before, reward, after, ended, cut) == (theirs[0], *theirs[2:])
    stepper.close()


def _meant(stepper: Stepper, action: Any) -> Any:
    """What a stored action is for the environment, by its space alone."""
    space = stepper.env.single_action_space
    if isinstance(space, gym.spaces.Box):
        cast = np.asarray(action, space.dtype)
        return np.minimum(np.maximum(cast, space.low), space.high)
    return np.asarray(action + getattr(space, "start", 0), space.dtype)


@pytest.mark.parametrize("kind", ACTIONS)
def test_an_action_that_was_handed_over_is_the_environments(kind: str) -> None:
    """What a smoothness penalty is about: the action before this one, whatever the policy does."""
    stepper = Stepper(SerialVectorEnv([partial(Keeping, Habits(actions=kind, length=9))]))
    stepper.reset(0)
    policys = np.zeros((1, *stepper.spec.actions.shape), stepper.spec.actions.stored_dtype)
    rewards = []
    for number in range(4):
        policys[...] = number % 2
        rewards.append(float(stepper.step(policys).rewards[0]))
    assert rewards == [0.0, 1.0, 1.0, 1.0]
    stepper.close()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("bound", [0.1, 0.4, 0.8, 2.4, np.pi, 1e-3, 1000.1])
def test_clipped_actions_are_within_the_space(bound: float, dtype: Any) -> None:
    class Bounded(Keeping):
        def __init__(self) -> None:
            super().__init__(Habits(actions="box"))
            self.action_space = gym.spaces.Box(-bound, np.inf, (2,), dtype)

        def step(self, action: Any) -> Any:
            assert self.action_space.contains(action), action
            return super().step(action)

    beyond = np.array([[-1e9, 5.0]], np.float32)
    stepper = Stepper(SerialVectorEnv([Bounded]))
    stepper.reset(0)
    stepper.step(beyond)
    stepper.close()
