"""Generalised advantage estimation (Schulman et al. 2016) over a round of sampling."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from artos.losses.rounds import Flags, Floats, following_values, sum_backwards


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

    All arrays are (A, T, E): A actors, E environments; or (T, n), whole episodes padded with zeros,
    as an ``EpisodeBatch`` has them, and so is what is returned. ``following_values`` says which
    value counts as that of the state after each row. Where ``valid`` is False (a row that was only
    a reset) the advantage is 0 and the return is the value itself, so the row teaches nothing.
    """
    following = following_values(values, bootstraps, terminations, truncations, valid)
    found = (rewards + gamma * following - values).astype(np.float32)
    ends = terminations | truncations
    sum_backwards(found, np.where(ends, np.float32(0), np.float32(gamma * lam)))
    if valid is not None:
        found *= valid
    return found, found + values.astype(np.float32, copy=False)


def discounted(rewards: NDArray[Any], gamma: float) -> Floats:
    """The discounted sum of each row's reward and those after it, (T, n) float32.

    ``rewards`` (T, n) are those of whole episodes padded with zeros, as an ``EpisodeBatch`` has
    them: the return that each action led to (Williams 1992).
    """
    found = rewards.astype(np.float32)
    sum_backwards(found, np.full(found.shape, gamma, np.float32))
    return found
