"""Finds frame stacks that are not declared: by Gymnasium's wrapper, checked on real rows."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import FrameStackObservation
from numpy.typing import NDArray

from artos.envs.spec import PADDING, STACK, leaves
from artos.envs.stepper import Stepper
from artos.envs.trial import some_actions
from artos.specs.keys import Padding

_PADDINGS: dict[str, Padding] = {"reset": "first", "zero": "zero"}
_ROUNDS = 3
"""Rows are checked for this many times the length of a stack."""


def declare(env: VectorEnv[Any, Any, Any], *, masked: bool = False) -> None:
    """Write into an environment's metadata which frame stacks it shows, if it shows any.

    A ``FrameStackObservation`` among its wrappers is a claim; some steps with random actions check
    that every observation is made of the newest frames, even behind wrappers that change them.
    Metadata that says anything, even ``frame_stack`` 1, is left alone.
    """
    # The wrappers of its first environment, where these can be seen.
    single = (getattr(env, "envs", None) or [None])[0]
    found: list[FrameStackObservation[Any, Any, Any]] = []
    while isinstance(single, gym.Wrapper):
        if isinstance(single, FrameStackObservation):
            found.append(single)
        single = single.env
    wrapper = found[0] if len(found) == 1 else None
    padding = _PADDINGS.get(wrapper.padding_type) if wrapper else None
    if wrapper is None or padding is None or wrapper.stack_size < 2 or STACK in env.metadata:
        return
    parts = [leaf for _, leaf in leaves(env.single_observation_space)]
    if not all(isinstance(p, spaces.Box) and p.shape[:1] == (wrapper.stack_size,) for p in parts):
        return
    try:
        same = _are_stacks(Stepper(env, masked=masked), wrapper.stack_size, padding)
    except Exception:
        return  # it will fail in the actor again, which reports it
    if same:
        env.metadata = {**env.metadata, STACK: wrapper.stack_size, PADDING: padding}


def _are_stacks(stepper: Stepper, stack: int, padding: Padding) -> bool:
    """Whether all observations are stacks of frames that were shown before."""
    rng = np.random.default_rng(0)
    names = [part.name for part in stepper.spec.features]
    obs, before = stepper.reset(0), dict[str, NDArray[Any]]()
    for _ in range(_ROUNDS * stack):
        if not all(_follows(obs[name], before.get(name), stepper.ages, padding) for name in names):
            return False
        before = {name: obs[name].copy() for name in names}
        obs = stepper.step(some_actions(stepper, obs, rng)).obs
    return True


def _follows(
    now: NDArray[Any], before: NDArray[Any] | None, ages: NDArray[np.uint8], padding: Padding
) -> bool:
    """Whether stacks (E, k, ...) continue the last ones by one frame, or begin an episode."""
    for env, age in enumerate(ages):
        newest = now[env, -1] if padding == "first" else np.zeros_like(now[env, -1])
        older = np.broadcast_to(newest, now[env, :-1].shape)
        if age and before is not None:
            older = before[env, 1:]
        if not np.array_equal(now[env, :-1], older):
            return False
    return True
