"""The work for every replay buffer: writing frame stacks, sampling batches with successors."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SHAPE = (4, 84, 84)
OBSERVATION_BYTES = 4 * 84 * 84
CAPACITY = 20_000
BATCH = 256
ALPHA, BETA = 0.6, 0.4
ACTIONS = 6

Observations = NDArray[np.uint8]


def observations(count: int, seed: int = 0) -> Observations:
    """Random frame stacks, (count, 4, 84, 84) uint8."""
    return np.random.default_rng(seed).integers(0, 255, (count, *SHAPE), dtype=np.uint8)


def options(description: str | None, arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse ``--seconds`` of each measurement and ``--capacity`` in rows."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--capacity", type=int, default=CAPACITY)
    return parser.parse_args(arguments)
