"""A stand-in for a learner, the same for all contestants: reads every byte, takes constant time.

No network is trained, so that a machine without a GPU spends its cores on the measured work. The
advantages are real, and every observation is converted to floats and multiplied with a matrix once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from evaluation.pipelining.rounds import OBSERVATION_BYTES, Array

PIECE = 64
"""Rows processed at once; as floats they fit a cache."""
_UNITS, _GAMMA, _LAMBDA = 16, 0.99, 0.95


class Learning:
    """Preprocessing and learning; ``with learning.working()`` counts the time of the work.

    Nobody copies rows inside it: fetching them is what is measured.
    """

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self._weights = random.standard_normal((OBSERVATION_BYTES, _UNITS), np.float32)
        self._inputs = np.zeros((PIECE, OBSERVATION_BYTES), np.float32)
        self.outputs = np.zeros(_UNITS)
        self.seconds = self.cpu_seconds = 0.0

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count the time inside as work, in seconds and CPU-seconds of this thread."""
        wall, cpu = time.perf_counter(), time.thread_time()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - wall
            self.cpu_seconds += time.thread_time() - cpu

    def preprocess(self, small: Mapping[str, Array]) -> Array:
        """Advantages, (A, T), from rewards, values, bootstraps and flags of that shape."""
        values, bootstraps = small["values"], small["bootstraps"]
        ends = small["terminations"] | small["truncations"]
        following = np.concatenate([values[:, 1:], bootstraps[:, -1:]], 1) * ~ends
        found = small["rewards"] + _GAMMA * following - values
        for step in range(found.shape[1] - 2, -1, -1):
            found[:, step] += _GAMMA * _LAMBDA * ~ends[:, step] * found[:, step + 1]
        return found

    def learn(self, observations: Array) -> None:
        """Work on observations, (n, 4, 84, 84) uint8."""
        for start in range(0, len(observations), PIECE):
            rows = observations[start : start + PIECE]
            inputs = self._inputs[: len(rows)]
            np.multiply(rows.reshape(len(rows), -1), np.float32(1 / 255), out=inputs)
            self.outputs += (inputs @ self._weights).sum(0)
