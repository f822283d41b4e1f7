"""Adapts a game whose interface is not Gymnasium's: ``artos run ppo --env their_game:make``."""

import random
from typing import Any

import gymnasium as gym
import numpy as np


class Game:
    """Stands for another library: guess whether a number is above 10; ten guesses."""

    def __init__(self, seed: int) -> None:
        self.random, self.left = random.Random(seed), 0

    def restart(self) -> int:
        """Begin; returns the number to guess about."""
        self.left, self.number = 10, self.random.randrange(20)
        return self.number

    def guess(self, above: bool) -> tuple[int, bool]:
        """The next number, and whether the guess was right."""
        right, self.number = above == (self.number > 10), self.random.randrange(20)
        self.left -= 1
        return self.number, right


class Adapted(gym.Env[np.ndarray, int]):
    """Says what the game shows and takes, and when an episode ends."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode; ``seed`` decides all that happens from here on."""
        super().reset(seed=seed)
        self.game = Game(int(self.np_random.integers(1 << 31)))
        return self._seen(self.game.restart()), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One guess. A time limit would be a truncation; these episodes end by themselves."""
        number, right = self.game.guess(bool(action))
        return self._seen(number), float(right), self.game.left == 0, False, {}

    def _seen(self, number: int) -> np.ndarray:
        return np.array([number / 20], np.float32)


def make() -> Adapted:
    """What ``--env their_game:make`` calls."""
    return Adapted()
