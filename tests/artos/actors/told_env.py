"""An environment whose observations say where they are from, and which writes down what happened.

Whatever a buffer says about a transition can so be compared with the episode it is of.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

STACK = 3


@dataclass
class Episode:
    """What happened: one reward a step, and how it ended (not at all, if it was given up)."""

    rewards: list[float] = field(default_factory=list)
    terminated: bool = False
    truncated: bool = False

    @property
    def over(self) -> bool:
        return self.terminated or self.truncated


@dataclass
class World:
    """All episodes of a test, by number; ends come by chance."""

    rng: np.random.Generator
    chance: float = 0.3
    episodes: list[Episode] = field(default_factory=list)


WORLD = World(np.random.default_rng(0))


def begin(seed: int, chance: float) -> World:
    """Forget all episodes."""
    WORLD.rng, WORLD.chance, WORLD.episodes = np.random.default_rng(seed), chance, []
    return WORLD


def shown(episode: int, step: int, stacked: bool) -> np.ndarray:
    """What is observed after ``step`` steps of an episode: (2,), or a stack of that, (3, 2)."""
    if not stacked:
        return np.array([episode, step], np.float32)
    lags = range(STACK - 1, -1, -1)
    return np.array([[episode, step - lag] if lag <= step else [0, 0] for lag in lags], np.float32)


class Told(gym.Env[Any, Any]):
    """Terminates, is truncated, or both at once, by chance; may never be stepped beyond its end."""

    def __init__(self, stacked: bool) -> None:
        self.metadata = {"frame_stack": STACK} if stacked else {}
        shape = (STACK, 2) if stacked else (2,)
        self.observation_space = spaces.Box(-1, 1e6, shape, np.float32)
        self.action_space = spaces.Discrete(2)
        self.stacked, self.number = stacked, -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.number = len(WORLD.episodes)
        WORLD.episodes.append(Episode())
        return shown(self.number, 0, self.stacked), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        episode = WORLD.episodes[self.number]
        assert not episode.over, "stepped beyond its end"
        episode.rewards.append(float(WORLD.rng.normal()))
        if WORLD.rng.random() < WORLD.chance:
            kind = WORLD.rng.integers(3)
            episode.terminated, episode.truncated = bool(kind != 1), bool(kind != 0)
        obs = shown(self.number, len(episode.rewards), self.stacked)
        return obs, episode.rewards[-1], episode.terminated, episode.truncated, {}


def single() -> gym.Env[Any, Any]:
    return Told(stacked=False)


def single_stacked() -> gym.Env[Any, Any]:
    return Told(stacked=True)


def vector(mode: AutoresetMode, stacked: bool, num_envs: int) -> VectorEnv[Any, Any, Any]:
    return SyncVectorEnv([partial(Told, stacked)] * num_envs, autoreset_mode=mode)


def next_step(num_envs: int) -> VectorEnv[Any, Any, Any]:
    return vector(AutoresetMode.NEXT_STEP, False, num_envs)


def next_step_stacked(num_envs: int) -> VectorEnv[Any, Any, Any]:
    return vector(AutoresetMode.NEXT_STEP, True, num_envs)


def disabled(num_envs: int) -> VectorEnv[Any, Any, Any]:
    return vector(AutoresetMode.DISABLED, False, num_envs)


def disabled_stacked(num_envs: int) -> VectorEnv[Any, Any, Any]:
    return vector(AutoresetMode.DISABLED, True, num_envs)


def same_step(num_envs: int) -> VectorEnv[Any, Any, Any]:
    return vector(AutoresetMode.SAME_STEP, False, num_envs)
