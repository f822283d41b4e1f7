"""What an environment pays for goals other than the one it had, in the process that learns."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import closing
from typing import Any

import gymnasium as gym
import msgspec
import numpy as np
from numpy.typing import DTypeLike, NDArray

from artos.envs.make import AnyVectorEnv, open_vector
from artos.envs.serial import SerialVectorEnv
from artos.envs.spec import EnvSpec, Part
from artos.envs.stepper import Step, Stepper
from artos.envs.trial import some_actions
from artos.errors import Refused
from artos.specs.keys import ACHIEVED_KEY, DESIRED_KEY, OBSERVATIONS
from artos.system.under_way import under_way

_STEPS = 10


class GoalRewards:
    """Asks an environment of its own, which was reset once: ``Goals`` of the samplers.

    It is Gymnasium-Robotics' convention: ``compute_reward(achieved_goal, desired_goal, info)`` and,
    where the environment has it, ``compute_terminated`` with the same arguments. ``info`` is empty,
    as no row has one. Both are called for all rows at once if that gives what one by one does.

    Raises:
        Refused: the environment shows no goals, or says nothing of them.
    """

    def __init__(self, env: str, spec: EnvSpec, seed: int) -> None:
        self._env, self._spec = env, spec
        parts = {part.name: part for part in spec.parts}
        if not parts.keys() >= {ACHIEVED_KEY, DESIRED_KEY}:
            raise Refused([_NO_GOALS.format(env)])
        reached, wanted = parts[ACHIEVED_KEY], parts[DESIRED_KEY]
        if _kind(reached) != _kind(wanted) or reached.stack > 1:
            raise Refused([_UNLIKE.format(env)])
        made = open_vector(env, 1, seed)
        self._vector, self.close = made, weakref.finalize(self, made.close)
        rewards, terminations = _method(made, "compute_reward"), _method(made, "compute_terminated")
        if rewards is None:
            self.close()
            raise Refused([_NO_REWARDS.format(env)])
        made.reset(seed=seed)
        space = made.single_observation_space
        self._goal, self._dtype = reached, space["achieved_goal"].dtype  # type: ignore[index]
        self._rewards = _Asked(rewards, np.float32)
        self._terminations = terminations and _Asked(terminations, np.bool_)

    def rewards(self, reached: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.float32]:
        """What it pays, (n,), for having reached one when wanting the other, both (n, *shape)."""
        return self._rewards(self._own(reached), self._own(wanted))

    def terminations(self, reached: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.bool_] | None:
        """Whether episodes are over then, (n,); None if it has no ``compute_terminated``."""
        if self._terminations is None:
            return None
        return self._terminations(self._own(reached), self._own(wanted))

    def _own(self, goals: NDArray[Any]) -> NDArray[Any]:
        """The environment's own numbers, copied."""
        if self._goal.start:
            goals = goals + np.reshape(self._goal.start, self._goal.shape)
        return goals.astype(self._dtype)

    def fault(self) -> str:
        """What it says of goals otherwise than its steps do; empty if nothing was found."""
        stepper = Stepper(self._vector, self._env, masked=self._spec.masked == "info")
        rng, obs = np.random.default_rng(0), stepper.reset(0)
        for _ in range(_STEPS):
            step = stepper.step(some_actions(stepper, obs, rng))
            if step.valid[0] and (why := self._differs(step)):
                return _DIFFERS.format(self._env, why)
            obs = step.obs
        return ""

    def _differs(self, step: Step) -> str:
        seen = step.obs if step.final is None else step.final
        reached, wanted = seen[ACHIEVED_KEY].copy(), seen[DESIRED_KEY].copy()
        paid, said = float(step.rewards[0]), float(self.rewards(reached, wanted)[0])
        if not np.isclose(paid, said, rtol=1e-4, atol=1e-5):
            return f"its step pays {paid:g} where its compute_reward says {said:g}"
        over = self.terminations(reached, wanted)
        if over is not None and over[0] and not step.terminations[0]:
            return "its compute_terminated ends an episode that its step does not"
        return ""


def goal_faults(env: str, spec: EnvSpec, seed: int) -> list[str]:
    """Why goals of an environment cannot be relabelled; makes it, steps it, and closes it."""
    try:
        with (
            under_way(f"environment {env}", "compute_reward"),
            closing(GoalRewards(env, spec, seed)) as goals,
        ):
            why = goals.fault()
    except Refused as refused:
        return list(refused.faults)
    except Exception as error:
        return [_FAILS.format(env, type(error).__name__, error)]
    return [why] if why else []


class _Asked:
    """A function of two goals and an empty ``info``, for n pairs of goals."""

    def __init__(self, function: Callable[..., Any], dtype: DTypeLike) -> None:
        self._function, self._dtype = function, dtype
        self._at_once: bool | None = None  # not known before it was tried with several

    def __call__(self, reached: NDArray[Any], wanted: NDArray[Any]) -> NDArray[Any]:
        several = len(reached) > 1
        together = (
            self._together(reached, wanted) if several and self._at_once is not False else None
        )
        if together is not None and self._at_once:
            return together
        pairs = zip(reached, wanted, strict=True)
        each = [np.asarray(self._function(one, other, {})).item() for one, other in pairs]
        found = np.array(each, self._dtype)
        if several and self._at_once is None:
            self._at_once = together is not None and np.allclose(together, found)
        return found

    def _together(self, reached: NDArray[Any], wanted: NDArray[Any]) -> NDArray[Any] | None:
        """What it says of all at once, if that is one number for each."""
        try:
            said = np.asarray(self._function(reached.copy(), wanted.copy(), {}))
        except Exception:  # whatever code for one goal raises when it gets many
            return None
        return said.astype(self._dtype) if said.shape == reached.shape[:1] else None


def _method(made: AnyVectorEnv, name: str) -> Callable[..., Any] | None:
    """A method of a single environment, through its wrappers, or of a vector environment."""
    one: Any = made.envs[0] if isinstance(made, SerialVectorEnv) else made.unwrapped
    if isinstance(one, gym.Env):
        return one.get_wrapper_attr(name) if one.has_wrapper_attr(name) else None
    found: Callable[..., Any] | None = getattr(one, name, None)
    return found


def _kind(part: Part) -> Part:
    """What two goals must have in common."""
    return msgspec.structs.replace(part, name=OBSERVATIONS, low=None, high=None)


_HER = "her relabels goals by what was reached later, and "
_NO_GOALS = _HER + (
    "{} shows none: set her=0, or make it show a Dict of observation, achieved_goal and "
    "desired_goal"
)
_UNLIKE = _HER + (
    "achieved_goal and desired_goal of {} differ in shape, dtype or categories, or are stacks of "
    "frames: make them alike, or set her=0"
)
_NO_REWARDS = _HER + (
    "{} has no compute_reward(achieved_goal, desired_goal, info), which says what these pay: write "
    "it, or set her=0"
)
_DIFFERS = _HER + (
    "of {} {}: let both say the same, also where a wrapper changes rewards, or set her=0"
)
_FAILS = _HER + (
    "compute_reward or compute_terminated of {} fails with an empty info, as no row has one "
    "({}: {}): let both need goals alone, or set her=0"
)
