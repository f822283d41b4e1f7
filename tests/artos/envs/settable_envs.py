"""Environments that can be set: they show with which values they were reset and stepped."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from games_for_tests import Guessing
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorWrapper

from artos.specs.configuration import Changeable


class Steep(gym.Env[Any, Any]):
    """Observes (difficulty when it was reset, difficulty now, speed); an episode has 3 steps."""

    metadata: ClassVar[dict[str, Any]] = {
        "settable": [Changeable("difficulty", ge=0, le=9), "faster", "slippery"]
    }
    observation_space = spaces.Box(0, 100, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.difficulty, self.slippery, self.speed = 1, False, 0.0

    def faster(self, speed: float) -> None:
        """A method may take a value, too."""
        self.speed = speed

    def _look(self) -> Any:
        return np.array([self.reset_with, self.difficulty, self.speed], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.steps, self.reset_with = 0, self.difficulty
        return self._look(), {}

    def step(self, action: int) -> Any:
        self.steps += 1
        return self._look(), 1.0, self.steps == 3, False, {}


def single() -> gym.Env[Any, Any]:
    return Steep()


def wrapped() -> gym.Env[Any, Any]:
    return gym.wrappers.TimeLimit(gym.wrappers.RecordEpisodeStatistics(Steep()), 50)


def _vector(mode: AutoresetMode, num_envs: int) -> SyncVectorEnv:
    made = SyncVectorEnv([Steep] * num_envs, autoreset_mode=mode)
    made.metadata = {**made.metadata, "settable": ["difficulty"]}
    return made


def next_step(num_envs: int) -> Any:
    return VectorWrapper(_vector(AutoresetMode.NEXT_STEP, num_envs))


def disabled(num_envs: int) -> Any:
    return _vector(AutoresetMode.DISABLED, num_envs)


def same_step(num_envs: int) -> Any:
    return _vector(AutoresetMode.SAME_STEP, num_envs)


def with_a_method(num_envs: int) -> Any:
    made = _vector(AutoresetMode.DISABLED, num_envs)
    made.metadata = {**made.metadata, "settable": ["faster"]}
    return made


class Wrong(Steep):
    metadata: ClassVar[dict[str, Any]] = {"settable": ["difficult", "words"]}
    words = "hard"


def wrong() -> Any:
    return Wrong()


class NoList(Steep):
    metadata: ClassVar[dict[str, Any]] = {"settable": "difficulty"}


def no_list() -> Any:
    return NoList()


class Unreachable(gym.vector.VectorEnv[Any, Any, Any]):
    def __init__(self, num_envs: int) -> None:
        self._inner = _vector(AutoresetMode.SAME_STEP, num_envs)
        self.num_envs, self.metadata = num_envs, self._inner.metadata
        self.single_observation_space = self._inner.single_observation_space
        self.single_action_space = self._inner.single_action_space
        self.observation_space = self._inner.observation_space
        self.action_space = self._inner.action_space

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self._inner.reset(seed=seed, options=options)

    def step(self, actions: Any) -> Any:
        return self._inner.step(actions)


def unreachable(num_envs: int) -> Any:
    return Unreachable(num_envs)


class Rising(Guessing):
    """A game in which the cue is the bonus that was set."""

    metadata: ClassVar[dict[str, Any]] = {"name": "rising", "settable": ["bonus"]}
    bonus = 1.0

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        found = super().reset(seed, options)
        for seen in self._seen.values():
            seen[0] = self.bonus
        return found


def game() -> Any:
    return Rising(2)
