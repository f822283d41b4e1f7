"""Tiny deterministic environments: every observation says which episode and which step it is."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv


class Counting(gym.Env[Any, Any]):
    """Episodes of ``length`` steps; observes (episode, step), rewards the step's number."""

    def __init__(self, length: int = 3, truncates: bool = False, discount: float = 1.0) -> None:
        self.observation_space = spaces.Box(-1000, 1000, (2,), np.float32)
        self.action_space = spaces.Discrete(3)
        self.length, self.truncates, self.scale = length, truncates, discount
        self.episode, self.at = -1, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode, self.at = self.episode + 1, 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.at += 1
        over = self.at == self.length
        reward = float(self.at) * self.scale
        return self._seen(), reward, over and not self.truncates, over and self.truncates, {}

    def _seen(self) -> Any:
        return np.array([self.episode, self.at], np.float32)


class Nested(Counting):
    """The same behind a nested Dict, with MultiDiscrete actions."""

    def __init__(self, length: int = 3, truncates: bool = False) -> None:
        super().__init__(length, truncates)
        self.observation_space = spaces.Dict(
            {
                "place": spaces.Dict(
                    {
                        "room": spaces.Discrete(50),
                        "door": spaces.MultiDiscrete([50, 4]),
                    }
                ),
                "bits": spaces.MultiBinary(3),
                "height": spaces.Box(-np.inf, np.inf, (2, 2), np.float64),
            }
        )
        self.action_space = spaces.MultiDiscrete([3, 2])

    def _seen(self) -> Any:
        return {
            "place": {"room": np.int64(self.episode), "door": np.array([self.at, 1])},
            "bits": np.array([1, 0, 1], np.int8),
            "height": np.full((2, 2), self.at, np.float64),
        }


class Moving(Counting):
    """Box actions in bounds; the observation is the action that arrived."""

    def __init__(self) -> None:
        super().__init__(5)
        self.action_space = spaces.Box(np.array([-1, -2]), np.array([1, np.inf]), dtype=np.float64)
        self.got = np.zeros(2, np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.got = action.astype(np.float32)
        assert action.dtype == np.float64
        return super().step(action)

    def _seen(self) -> Any:
        return self.got


class Shifted(Counting):
    """Discrete actions from 5; observes a Discrete that begins at −2."""

    def __init__(self) -> None:
        super().__init__(9)
        self.action_space = spaces.Discrete(3, start=5)
        self.observation_space = spaces.Discrete(20, start=-2)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, _, over, cut, info = super().step(action)
        return obs, float(action), over, cut, info

    def _seen(self) -> Any:
        return np.int64(self.at - 2)


class Poisoned(Counting):
    """Returns ``value`` as its second observation or as its second reward."""

    def __init__(self, value: float, where: str = "observation") -> None:
        super().__init__(9)
        self.value, self.where = value, where

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, over, cut, info = super().step(action)
        if self.at == 2 and self.where == "observation":
            obs[1] = self.value
        if self.at == 2 and self.where == "reward":
            reward = self.value
        return obs, reward, over, cut, info


class Listening(Counting):
    """Observations of any length, which cannot be stored, and text actions, which cannot either."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Sequence(spaces.Discrete(2))
        self.action_space = spaces.Text(3)


def make_counting() -> gym.Env[Any, Any]:
    return Counting()


def make_seeded(seed: int) -> gym.Env[Any, Any]:
    return Counting(length=seed + 2)


def make_vectored(num_envs: int) -> VectorEnv[Any, Any, Any]:
    return SyncVectorEnv([Counting] * num_envs, autoreset_mode=AutoresetMode.NEXT_STEP)


def make_two() -> VectorEnv[Any, Any, Any]:
    return SyncVectorEnv([Counting] * 2)


def make_nothing() -> int:
    return 7


def make_failing() -> gym.Env[Any, Any]:
    raise OSError("the track file is missing")


NOT_CALLABLE = 3
