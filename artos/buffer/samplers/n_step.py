"""n-step returns that stop at episode ends and at the newest committed row (paper Table 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from artos.buffer.samplers.episodes import TRUNCATIONS, given_up, has_marks
from artos.buffer.samplers.frames import Ints, Rows

Floats = NDArray[np.float32]


class NStepReturns(NamedTuple):
    """What looking ahead from n rows found; every field is (n,).

    ``returns`` sums the discounted rewards of ``lengths`` rows. ``steps`` is the row to bootstrap
    from, ``discounts`` the factor of its value: gamma ** length, and 0 after a termination.
    """

    returns: Floats
    discounts: Floats
    steps: Ints
    lengths: Ints


@dataclass(frozen=True, kw_only=True)
class NStep:
    """How far to look ahead, and the data keys of rewards and of the ends of episodes.

    A truncated episode is bootstrapped from the row after its last, which must hold its final
    observation (``RolloutActor(final_observations=True)``). If it does not, name the truncations
    among ``terminated``, with ``truncated=()``.
    """

    n: int
    gamma: float
    rewards: str = "rewards"
    terminated: tuple[str, ...] = ("terminations",)
    truncated: tuple[str, ...] = (TRUNCATIONS,)

    @property
    def keys(self) -> tuple[str, ...]:
        """Every data key that looking ahead reads."""
        return (self.rewards, *self.terminated, *self.truncated)

    def look_ahead(self, rows: Rows, committed: Ints) -> NStepReturns:
        """Returns from each of ``rows``, (n,); no row at or after ``committed``, (n,), is used.

        Near that edge, and where an episode was given up, fewer than n steps are summed, so that
        the bootstrap row is always there.
        """
        available = np.minimum(self.n, committed - 1 - rows.steps)
        steps = rows.steps[:, None] + np.minimum(np.arange(self.n), available[:, None])
        # A row that is drawn has a successor: only later ones may have been given up.
        if self.n > 1 and has_marks(rows.sources.blocks[0]):
            available = np.minimum(available, _first(given_up(rows, steps)))
        rewards = np.empty(steps.shape, rows.sources.key(self.rewards).dtype)
        rows.take_at(self.rewards, steps, rewards)
        terminated = self._any(rows, self.terminated, steps)
        ended = terminated | self._any(rows, self.truncated, steps)
        lengths = lengths_ahead(ended, available)
        counted = np.arange(self.n) < lengths[:, None]
        terminal = (terminated & counted).any(axis=1)
        return NStepReturns(
            discounted_sum(rewards, counted, self.gamma),
            np.where(terminal, 0.0, self.gamma**lengths).astype(np.float32),
            rows.steps + lengths,
            lengths,
        )

    @staticmethod
    def _any(rows: Rows, names: tuple[str, ...], steps: Ints) -> NDArray[np.bool_]:
        flags = np.zeros(steps.shape, np.bool_)
        for name in names:
            values = np.empty(steps.shape, rows.sources.key(name).dtype)
            rows.take_at(name, steps, values)
            flags |= values.astype(np.bool_)
        return flags


def lengths_ahead(ended: NDArray[np.bool_], available: Ints) -> Ints:
    """How many rows ahead count: up to and including the first end, and no more than are available.

    Args:
        ended: (b, n) whether an episode ended in the row.
        available: (b,) rows that may be used.
    """
    lengths: Ints = np.minimum(_first(ended) + 1, available)
    return lengths


def _first(flags: NDArray[np.bool_]) -> Ints:
    """The first column that is true in each row, else the number of columns."""
    first: Ints = np.where(flags.any(axis=1), flags.argmax(axis=1), flags.shape[1])
    return first


def discounted_sum(rewards: NDArray[Any], counted: NDArray[np.bool_], gamma: float) -> Floats:
    """Sums of discounted rewards, (b,); ``rewards`` and ``counted`` are (b, n)."""
    # where, not a product: rows that do not count may hold anything, NaN included
    earned = np.where(counted, rewards * gamma ** np.arange(rewards.shape[1]), 0.0)
    sums: Floats = earned.sum(axis=1).astype(np.float32)
    return sums
