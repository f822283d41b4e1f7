"""Generalised advantage estimation (Schulman et al. 2016) over a round of sampling."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


def advantages(
    rewards: NDArray[Any],
    values: NDArray[Any],
    bootstraps: NDArray[Any],
    terminations: Flags,
    truncations: Flags,
    gamma: float,
    lam: float,
    valid: Flags | None = None,
) -> tuple[Floats, Floats]:
    """Advantages and returns (advantage + value) of rounds of T steps, both (A, T, E) float32.

    All arrays are (A, T, E): A actors, E environments. The value after step t is 0 if the episode
    terminated there, ``bootstraps[t]`` if it was truncated or t is the round's last row (the value
    of the last observation), else ``values[t + 1]``. Where ``valid`` is False (a row that was only
    a reset) the advantage is 0 and the return the value itself, so the row teaches nothing.
    """
    ends = terminations | truncations
    following = np.empty(values.shape, np.float32)
    following[:, :-1] = values[:, 1:]
    following[:, -1] = bootstraps[:, -1]
    np.copyto(following, bootstraps, where=truncations)
    np.copyto(following, 0, where=terminations)
    found = (rewards + gamma * following - values).astype(np.float32)
    weight = np.where(ends, np.float32(0), np.float32(gamma * lam))
    for t in range(found.shape[1] - 2, -1, -1):
        found[:, t] += weight[:, t] * found[:, t + 1]
    if valid is not None:
        found *= valid
    return found, found + values.astype(np.float32, copy=False)
