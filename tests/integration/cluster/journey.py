"""Episodes that no run sees the end of; each observation follows from the one before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import counting
import numpy as np

from artos import Workload

FACTOR, SUMMAND, MODULUS = 6364136223846793005, 1442695040888963407, 2**62


def follower(number: int) -> int:
    """What is shown after ``number``."""
    return (FACTOR * number + SUMMAND) % MODULUS


class Traveller(counting.Counter):
    """Shows (who it is, where it is on a path that only it is on); an episode has no end."""

    def _look(self) -> Any:
        return np.array([self.identity, self.place], np.int64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.place = self.identity
        return super().reset(seed=seed, options=options)

    def step(self, action: int) -> Any:
        self.place = follower(self.place)
        looks, reward, over, _, info = super().step(action)
        return looks, reward, over, False, info


def make(seed: int) -> Traveller:
    return Traveller(seed)


def workload(actors: int = 2, total_steps: int = 2400) -> Workload:
    plain = counting.workload(actors, total_steps)
    return replace(plain, name="journey", actor=counting.Walker("journey:make", envs=1))
