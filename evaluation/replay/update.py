"""The update of SAC that is timed alone, as of HalfCheetah; for scripts in any environment."""

from __future__ import annotations

import time
from collections.abc import Callable

OBSERVATIONS, ACTIONS, BATCH, HIDDEN = 17, 6, 256, (256, 256)
ROWS = 100_000
"""Transitions that are drawn from."""


def timed(updates: Callable[[int], object], count: int) -> float:
    """Milliseconds of an update, after as many that warm up; ``updates(n)`` makes n of them."""
    updates(count)
    start = time.perf_counter()
    updates(count)
    return 1e3 * (time.perf_counter() - start) / count
