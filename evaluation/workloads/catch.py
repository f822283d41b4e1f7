"""Catch as a picture: a quick task for the Nature CNN (Mnih et al. 2014 used a similar game).

``artos run ppo --env evaluation.workloads.catch:make``. A ball falls straight down a 12 × 12 field
drawn 84 × 84; the paddle at the bottom goes left, stays or goes right. Reward 1 for catching it,
-1 for missing; an episode is ten balls.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

_FIELD, _SCALE, _BALLS = 12, 7, 10
_BRIGHT, _REACH = 255, 1


class Catch(gym.Env[NDArray[np.uint8], int]):
    """See the module. Observations are (84, 84, 1) uint8."""

    def __init__(self) -> None:
        side = _FIELD * _SCALE
        self.observation_space = gym.spaces.Box(0, _BRIGHT, (side, side, 1), np.uint8)
        self.action_space: gym.Space[Any] = gym.spaces.Discrete(3)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """A new paddle and the first ball."""
        super().reset(seed=seed, options=options)
        self._paddle, self._left = _FIELD // 2, _BALLS
        self._drop()
        return self._picture(), {}

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Move the paddle; the ball falls by one."""
        self._paddle = int(np.clip(self._paddle + int(action) - 1, _REACH, _FIELD - 1 - _REACH))
        self._row += 1
        reward = 0.0
        if self._row == _FIELD - 1:
            reward = 1.0 if abs(self._column - self._paddle) <= _REACH else -1.0
            self._left -= 1
            self._drop()
        return self._picture(), reward, self._left == 0, False, {}

    def _drop(self) -> None:
        self._row, self._column = 0, int(self.np_random.integers(_FIELD))

    def _picture(self) -> NDArray[np.uint8]:
        field = np.zeros((_FIELD, _FIELD), np.uint8)
        field[self._row, self._column] = _BRIGHT
        field[-1, self._paddle - _REACH : self._paddle + _REACH + 1] = _BRIGHT
        return field.repeat(_SCALE, 0).repeat(_SCALE, 1)[..., None]


def make() -> Catch:
    """A game."""
    return Catch()
