"""The same in a plain loop of Gymnasium, which copies everything, and what ARTOS should store."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from odd_envs import Odd, plain
from odd_worlds import Habits

Array = np.ndarray[Any, Any]
Parts = dict[str, Array]


def meant(space: gym.Space[Any], stored: Any) -> Any:
    """The action that a stored one is, by its space alone."""
    if isinstance(space, spaces.Box):
        action = np.array(stored, space.dtype)
        return np.minimum(np.maximum(action, space.low), space.high).astype(space.dtype)
    if isinstance(space, spaces.Discrete):
        return space.dtype.type(stored + space.start)
    return np.array(stored + getattr(space, "start", 0), space.dtype)


def parts_of(env: gym.Env[Any, Any], obs: Any, info: dict[str, Any], over: bool) -> Parts:
    """An observation as it is to be stored, by data key."""
    found = dict(_parts(env.observation_space, obs, "observations"))
    mask = found.pop("observations.action_mask", info.get("action_mask"))
    if mask is not None:
        mask = np.array(mask) != 0
        found["observations.action_mask"] = np.ones_like(mask) if over and not mask.any() else mask
    return found


def _parts(space: gym.Space[Any], obs: Any, key: str) -> Iterator[tuple[str, Array]]:
    match space:
        case spaces.Dict():
            for name, inner in space.spaces.items():
                yield from _parts(inner, obs[name], f"{key}.{name}")
        case spaces.Tuple():
            for i, inner in enumerate(space.spaces):
                yield from _parts(inner, obs[i], f"{key}.{i}")
        case spaces.Discrete() | spaces.MultiDiscrete():
            yield key, np.array(obs - space.start, np.int64)
        case _:
            kind = np.dtype(space.dtype).type
            yield key, np.array(obs, np.float32 if kind in (np.float64, np.longdouble) else kind)


class Loop:
    """Steps one environment by hand; all it hands over and gets is copied."""

    def __init__(self, habits: Habits, seed: int) -> None:
        self.env = plain(habits)
        self._take(*deepcopy(self.env.reset(seed=seed)))

    def _take(self, obs: Any, info: dict[str, Any], over: bool = False) -> None:
        self.obs, self.mask = obs, info.get("action_mask")
        self.parts, self.over = parts_of(self.env, obs, info, over), over

    def reset(self) -> None:
        """Begin the next episode."""
        self._take(*deepcopy(self.env.reset()))

    def step(self, action: Any) -> tuple[float, bool, bool]:
        """Take a step; returns the reward and how the episode ended."""
        obs, reward, ended, cut, info = deepcopy(self.env.step(deepcopy(action)))
        self._take(obs, info, ended or cut)
        return float(reward), ended, cut

    @property
    def unwrapped(self) -> Odd:
        found: Any = self.env.unwrapped
        return found


class Row(dict[str, Any]):
    """What is to be stored of a step; ``following`` are the parts of what it led to."""

    following: Parts
    reward = 0.0


def rows_of(habits: Habits, seed: int, actions: Array, *, waits: bool, twice: bool) -> list[Row]:
    """The rows of these stored actions.

    ``waits``: a reset has a row of its own; ``twice``: an environment is reset before it and after.
    """
    loop, rows = Loop(habits, seed), []
    for stored in actions:
        row = Row(loop.parts)
        results = 0.0, False, False
        if loop.over:
            loop.reset()
            if twice:
                loop.reset()
            row["valid"] = False
        else:
            row["valid"] = True
            results = loop.step(meant(loop.env.action_space, stored))
        row["rewards"] = np.float32(results[0])
        row["terminations"], row["truncations"] = results[1:]
        row.reward, row.following = results[0], loop.parts
        rows.append(row)
        if loop.over and not waits:
            loop.reset()
    return rows


def episodes_of(rows: list[Row]) -> list[tuple[int, float, int]]:
    """The row that ends each episode, its return and its length."""
    found, total, length = [], 0.0, 0
    for at, row in enumerate(rows):
        total, length = total + row.reward, length + row["valid"]
        if row["terminations"] or row["truncations"]:
            found.append((at, total, length))
            total, length = 0.0, 0
    return found
