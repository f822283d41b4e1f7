"""Evolution strategies (Salimans et al. 2017): what is tried, its returns, and what they show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from artos.losses.rounds import Flags, Floats

Returns = NDArray[np.float64]


class Round(NamedTuple):
    """What the noise of a round follows from: who knows these numbers needs no copy of it.

    A run that is resumed may write its rows from 0 again, but never with the same ``version``.
    """

    seed: int
    """The run's."""
    actor: int
    version: int
    """Of the weights that are perturbed."""
    start: int
    """The first row."""

    def noise(self, pair: int, count: int) -> Floats:
        """Standard normal noise (count,) that a pair of the actor's environments tries."""
        return np.random.default_rng((*self, pair)).standard_normal(count, np.float32)

    def reset_seed(self) -> int:
        """By which episodes begin, below 2**31."""
        return int(np.random.default_rng(self).integers(2**31))


def returns_of(rewards: Floats, ends: Flags) -> Returns:
    """Mean returns (A, E) of the episodes that ended in rounds (A, T, E), begun with the rounds.

    Where none did, it is that of the episode which the round cuts off.
    """
    ended = ends.sum(1)
    whole = np.flip(np.logical_or.accumulate(np.flip(ends, 1), 1), 1)
    counted = whole | (ended == 0)[:, None]
    found: Returns = (rewards * counted).sum(1, np.float64) / np.maximum(ended, 1)
    return found


def centred_ranks(values: Returns) -> Returns:
    """Ranks (n,) of two or more values, from -1/2 for the least to 1/2.

    Equal values share the mean of their ranks, so that where all are equal nothing is learned.
    """
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts + 1) / 2
    found: Returns = ranks[which] / (len(values) - 1) - 0.5
    return found


def uphill(ranks: Returns, noises: Iterable[Floats], count: int, sigma: float) -> Floats:
    """The gradient (count,) of the expected rank, by ``ranks`` (pairs, 2).

    A pair tried parameters plus and minus ``sigma`` times one of the ``noises`` (count,), in this
    order: mirrored sampling (Salimans et al. 2017, §2).
    """
    found = np.zeros(count, np.float32)
    for (plus, minus), noise in zip(ranks, noises, strict=True):
        found += np.float32((plus - minus) / (ranks.size * sigma)) * noise
    return found
