"""Environments that make something of their own when they are made; each shows it."""

from __future__ import annotations

import random
import uuid
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Holding(gym.Env[Any, Any]):
    """Shows nothing; ``held`` is its own."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, held: Any = None) -> None:
        self.held = held

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(1, np.float32), 0.0, False, False, {}


class Drawing(Holding):
    """Its first observation is decided by entropy of the machine, wherever that is kept."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        _, info = super().reset(seed=seed)
        return np.array([uuid.uuid4().int % 997 / 1000], np.float32), info


class Reseeding(Holding):
    """Has an unseeded generator, until its first seeded reset."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng())

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        found = super().reset(seed=seed)
        self.held = np.random.default_rng(seed)
        return found


class Slotted:
    """Has no dictionary of attributes."""

    __slots__ = ("inner",)

    def __init__(self, inner: Any) -> None:
        self.inner = inner


def level(name: str) -> str:
    return name


UNLIKE: dict[str, tuple[Any, str]] = {
    "generator": (lambda: Holding(np.random.default_rng()), ".held['state']"),
    "old_generator": (lambda: Holding(np.random.RandomState()), ".held"),
    "python_generator": (lambda: Holding(random.Random()), ".held"),
    "name": (lambda: Holding(uuid.uuid4()), ".held"),
    "global_draw": (lambda: Holding({"noise": np.random.rand(3)}), ".held['noise']"),
    "a_list_of_draws": (lambda: Holding([0, [random.random()]]), ".held[1][0]"),
    "behind_slots": (lambda: Holding(Slotted(uuid.uuid4())), ".held.inner"),
    "an_array_of_objects": (
        lambda: Holding(np.array([uuid.uuid4(), None], object)), ".held[0]"
    ),
    "a_bound_name": (lambda: Holding(partial(level, str(uuid.uuid4()))), ".held"),
    "another_length": (lambda: Holding([0] * (1 + uuid.uuid4().int % 10_007)), "len("),
    "what_it_shows": (Drawing, "what it shows[0]['observations']"),
}  # fmt: skip
ALIKE: dict[str, Any] = {
    "nothing": Holding,
    "reseeded": Reseeding,
    "equal_arrays": lambda: Holding({"map": np.arange(9), "nan": np.array([np.nan])}),
    "itself": lambda: _around(Holding()),
    "functions": lambda: Holding([level, str.upper, Holding, np]),
    "wrapped": lambda: gym.make("CartPole-v1"),
}


def _around(env: Holding) -> Holding:
    env.held = [env, env.reset]
    return env


def __getattr__(name: str) -> Any:
    if name in UNLIKE:
        return UNLIKE[name][0]
    if name in ALIKE:
        return ALIKE[name]
    raise AttributeError(name)
