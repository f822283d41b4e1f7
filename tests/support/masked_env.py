"""An environment in which most actions are forbidden in most states, and which minds."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

Source = Literal["dict", "info"]
CHOICES = (5, 3)


def allowed(step: int, sizes: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.int8]]:
    """What may be chosen in a step, all sub-actions side by side: two of each, or all but one."""
    rows = [(np.arange(n) + step) % n < (2 if step % 2 else n - 1) for n in sizes]
    return np.concatenate(rows).astype(np.int8)


class Masked(gym.Env[Any, Any]):
    """Shows the step; the reward is 1, and a forbidden action an error.

    Episodes last ``length`` steps. In their last state nothing is allowed.
    """

    def __init__(
        self, source: Source = "dict", several: bool = False, length: int = 7,
        truncates: bool = False, wrong: int = -1,
    ) -> None:  # fmt: skip
        self.sizes = CHOICES if several else CHOICES[:1]
        self.source, self.length, self.truncates, self.wrong = source, length, truncates, wrong
        seen = spaces.Box(0, 100, (1,), np.float32)
        mask = spaces.Box(0, 1, (sum(self.sizes),), np.int8)
        parts = {"observation": seen, "action_mask": mask}
        self.observation_space = spaces.Dict(parts) if source == "dict" else seen
        self.action_space = (
            spaces.MultiDiscrete(CHOICES) if several else spaces.Discrete(CHOICES[0], start=3)
        )
        self.at = 0

    @property
    def mask(self) -> Any:
        over = self.at in (self.length, self.wrong)
        return np.zeros(sum(self.sizes), np.int8) if over else allowed(self.at, self.sizes)

    def _shown(self) -> tuple[Any, dict[str, Any]]:
        seen = np.array([self.at], np.float32)
        if self.source == "info":
            return seen, {"action_mask": self.mask}
        return {"observation": seen, "action_mask": self.mask}, {}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at = 0
        return self._shown()

    def step(self, action: Any) -> Any:
        first = action - 3 if len(self.sizes) == 1 else action
        places = np.atleast_1d(first) + np.cumsum((0, *self.sizes[:-1]))
        assert self.mask[places].all(), f"{action} is forbidden in step {self.at}: {self.mask}"
        self.at += 1
        over = self.at == self.length
        obs, info = self._shown()
        return obs, 1.0, over and not self.truncates, over and self.truncates, info


def in_observation() -> Masked:
    return Masked()


def in_info() -> Masked:
    return Masked("info")


def in_info_cut() -> Masked:
    return Masked("info", length=9, truncates=True)


def several() -> Masked:
    return Masked(several=True)


def several_in_info() -> Masked:
    return Masked("info", several=True)


def empty() -> Masked:
    return Masked("info", wrong=3)


def next_step(num_envs: int) -> VectorEnv[Any, Any, Any]:
    return SyncVectorEnv([in_info] * num_envs, autoreset_mode=AutoresetMode.NEXT_STEP)


def same_step(num_envs: int) -> VectorEnv[Any, Any, Any]:
    return SyncVectorEnv([in_info_cut] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)


def disabled(num_envs: int) -> VectorEnv[Any, Any, Any]:
    return SyncVectorEnv([in_info] * num_envs, autoreset_mode=AutoresetMode.DISABLED)


class Steered(Masked):
    """Its actions are continuous, which nothing can mask."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)


def steered() -> Steered:
    return Steered("info")


def steered_in_observation() -> Steered:
    return Steered("dict")


class Short(Masked):
    """Its mask has another length than there are actions."""

    @property
    def mask(self) -> Any:
        return np.ones(2, np.int8)


def short() -> Short:
    return Short("info")
