"""CartPole whose observations are noisy, with draws from every random stream that user code has."""

from __future__ import annotations

import random
from typing import Any

import gymnasium as gym
import numpy as np


class Noisy(gym.ObservationWrapper[Any, Any, Any]):
    """Adds a draw of a stream of its own and one of each global stream to what is seen."""

    def __init__(self) -> None:
        super().__init__(gym.make("CartPole-v1"))
        self.own = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed is not None:
            self.own = np.random.default_rng(seed)
        return super().reset(seed=seed, options=options)

    def observation(self, observation: Any) -> Any:
        draws = [self.own.normal(), random.gauss(0, 1), np.random.normal(), 0.0]
        return (observation + 0.01 * np.array(draws)).astype(np.float32)
