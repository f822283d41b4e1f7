"""Environments that pay several rewards at once: each is a data key, and their sum is learned from.

``reward_space`` of shape (k,), as in MO-Gymnasium, says that there are k of them. The argument
``components`` of the address names them, in their order, with their weights in the sum:
``mo-hopper-v5(components={'speed': 1.0, 'height': 0.5, 'cost': 1.0})``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from artos.envs import hints
from artos.envs.shown import Mismatch, numbers, require_finite
from artos.envs.spec import COMPONENTS
from artos.errors import Refused
from artos.specs.address import address, parted

_NAME = re.compile(r"[A-Za-z_]\w*")


def components_of(env: str) -> tuple[str, dict[str, float]]:
    """The address without that argument, and the names with their weights; none if it is not there.

    Raises:
        Refused: they are no weights by name.
    """
    name, arguments = parted(env)
    if COMPONENTS not in arguments:
        return env, {}
    found = arguments.pop(COMPONENTS)
    if not found or not isinstance(found, dict) or not all(map(_is_weight, found.items())):
        raise Refused([_NO_WEIGHTS.format(env, COMPONENTS)])
    return address(name, arguments), {name: float(weight) for name, weight in found.items()}


def _is_weight(given: tuple[Any, Any]) -> bool:
    name, weight = given
    number = isinstance(weight, int | float) and math.isfinite(weight)
    return isinstance(name, str) and _NAME.fullmatch(name) is not None and number


def weighed(
    env: str, made: gym.Env[Any, Any], components: Mapping[str, float]
) -> gym.Env[Any, Any]:
    """The environment with one reward, the sum of its ``components``; as it is if it has no others.

    Raises:
        Refused: it pays several and they are not named, or as many as are named are not paid; it is
            closed then.
    """
    shape = hints.rewards_of(made)
    if faults := [*_faults(env, shape, components)]:
        made.close()
        raise Refused(faults)
    return Weighed(made, components) if components else made


def _faults(env: str, shape: tuple[int, ...], components: Mapping[str, float]) -> Iterator[str]:
    if not components and shape != (1,):
        yield hints.many_rewards(env, shape)
    elif components and shape != (len(components),):
        yield (
            f"environment {env}: {COMPONENTS} names {len(components)} rewards "
            f"({', '.join(components)}), and reward_space has the shape {shape}: name each of them"
        )


class Weighed(gym.Wrapper[Any, Any, Any, Any]):
    """Pays the weighted sum of the environment's rewards."""

    def __init__(self, env: gym.Env[Any, Any], components: Mapping[str, float]) -> None:
        super().__init__(env)
        self.metadata = {**env.metadata, COMPONENTS: tuple(components)}
        self._weights = np.array([*components.values()])
        self.paid = np.zeros(len(components), np.float32)
        """The rewards of the last step by themselves, (k,); 0 after a reset."""

    def reset(self, **named: Any) -> tuple[Any, dict[str, Any]]:
        """Begin again."""
        self.paid = np.zeros_like(self.paid)
        return self.env.reset(**named)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step it.

        Raises:
            Mismatch: it paid something other than so many numbers.
        """
        obs, rewards, terminated, truncated, info = self.env.step(action)
        each = numbers(rewards)
        if each is None or each.shape != self._weights.shape:
            raise Mismatch("rewards", f"{rewards!r} is not {len(self._weights)} numbers")
        require_finite("rewards", each)
        self.paid = each.astype(np.float32)
        return obs, float(each @ self._weights), terminated, truncated, info


_NO_WEIGHTS = (
    "environment {0}: {1} names rewards, with their weights in the sum that is learned from, e.g. "
    "{1}={{'speed': 1.0, 'cost': 0.1}}"
)
