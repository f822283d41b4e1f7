"""Environments whose numbers must come through a run as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from artos import Workload
from triggers import ObjectKeyTrigger, Trigger
from triggers.algorithms.ppo import workload as ppo

LAST = 100.0


class Marked(gym.Env[Any, Any]):
    """Shows 1 in all states but the last, which nobody acts in: that is ``LAST``."""

    observation_space = spaces.Box(0, 1000, (1,), np.float32)

    def __init__(self, actions: spaces.Space[Any]) -> None:
        self.action_space = actions

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.steps = 0
        return np.ones(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        last = self.steps == 4
        return np.full(1, LAST if last else 1, np.float32), 1.0, False, last, {}


def choosing(num_envs: int) -> SyncVectorEnv:
    """Begins anew in a row of its own, in every algorithm."""
    return SyncVectorEnv([lambda: Marked(spaces.Discrete(2))] * num_envs)


def moving(num_envs: int) -> SyncVectorEnv:
    return SyncVectorEnv([lambda: Marked(spaces.Box(-1, 1, (1,)))] * num_envs)


class Lamps(gym.Env[Any, Any]):
    """Say which of 8 lamps is on; lamps are numbers of any dtype."""

    action_space = spaces.Discrete(8)

    def __init__(self, dtype: str) -> None:
        self.observation_space = spaces.Box(0, 1, (8,), np.dtype(dtype))  # type: ignore[arg-type]

    def _seen(self) -> Any:
        self.lamp = int(self.np_random.integers(8))
        return (np.arange(8) == self.lamp).astype(self.observation_space.dtype)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        reward = float(action == self.lamp)
        return self._seen(), reward, False, self.steps == 20, {}


def lamps(dtype: str) -> Lamps:
    return Lamps(dtype)


class Far(gym.Env[Any, Any]):
    """Takes numbers from 1000 to 1100, and pays for those near 1080."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Box(1000, 1100, (1,), np.float64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.steps += 1
        seen = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return seen, -abs(float(action[0]) - 1080) / 100, False, self.steps == 20, {}


def far() -> Far:
    return Far()


def noisy(pipeline: str) -> Workload:
    """PPO of which something reads the gradient noise scale."""
    made = ppo("CartPole-v1", 2, 2048, steps=64, minibatches=2, pipeline=pipeline)
    reads: dict[str, Trigger] = {"evaluator.play": ObjectKeyTrigger("noise_scale")}
    return replace(made, triggers={**made.triggers, **reads})
