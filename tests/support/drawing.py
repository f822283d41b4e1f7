"""`counting.py` with environments that show what their random streams, and their process's, say."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
from counting import Bookkeeper, Counter, Walker
from counting import workload as counting

from artos import Workload

HALF = 1 << 30


class Drawer(Counter):
    """Shows who it is, and a number made of two draws for each observation."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        np.random.seed(seed % HALF)  # as environments of earlier days draw
        self.own = np.random.default_rng(seed)

    def _look(self) -> Any:
        drawn = int(self.own.integers(HALF)) * HALF + int(np.random.randint(HALF))
        return np.array([self.identity, drawn], np.int64)


def drawn_by(identity: int, count: int) -> list[int]:
    """What such an environment shows, from its first observation on."""
    own, process = np.random.default_rng(identity), np.random.RandomState(identity % HALF)
    return [int(own.integers(HALF)) * HALF + int(process.randint(HALF)) for _ in range(count)]


class Held(Drawer):
    """Cannot be pickled."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.lock = threading.Lock()


class Endless(Drawer):
    """Takes too long over it."""

    def __getstate__(self) -> Any:
        time.sleep(3600)


def drawer(seed: int) -> Drawer:
    return Drawer(seed)


def held(seed: int) -> Drawer:
    return Held(seed)


def endless(seed: int) -> Drawer:
    return Endless(seed)


def workload(actors: int = 2, total_steps: int = 6000, kind: str = "drawer") -> Workload:
    """An episode never ends in the step that a round ends with: 50 is no multiple of 16."""
    plain = counting(actors, total_steps)
    return Workload(
        name="drawing",
        actor=Walker(f"drawing:{kind}", envs=1),
        learner=Bookkeeper(),
        triggers=plain.triggers,
        actors=actors,
        steps=plain.steps,
        total_steps=total_steps,
    )
