"""`counting.py` with rows that keep a link busy: a round is a megabyte that LZ4 cannot shorten."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import counting
import numpy as np
from gymnasium import spaces

from artos import Workload

NOISE = 8192
"""Numbers of 8 bytes in a row."""


class Heavy(counting.Counter):
    """Shows what ``Counter`` shows, and noise."""

    observation_space = spaces.Box(0, 2**62, (2 + NOISE,), np.int64)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.noise = np.random.default_rng(seed)

    def _look(self) -> Any:
        return np.append(super()._look(), self.noise.integers(0, 2**62, NOISE))


def make(seed: int) -> Heavy:
    return Heavy(seed)


def workload(actors: int = 2, total_steps: int = 6000) -> Workload:
    light = counting.workload(actors, total_steps)
    return replace(light, name="heavy", actor=counting.Walker("heavy:make", envs=1))
