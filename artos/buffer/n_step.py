"""n-step returns that stop at episode ends and at the newest committed row (paper Table 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from artos.buffer.frames import Ints, Rows

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
    """How far to look ahead, and the data keys that say what was earned and where episodes end.

    A truncated episode is bootstrapped from the row after its last: with next-step autoreset that row
    holds the final observation. Where it does not, name the truncations among ``terminated``.
    """

    n: int
    gamma: float
    rewards: str = "rewards"
    terminated: tuple[str, ...] = ("terminations",)
    truncated: tuple[str, ...] = ("truncations",)

    @property
    def keys(self) -> tuple[str, ...]:
        """Every data key that looking ahead reads."""
        return (self.rewards, *self.terminated, *self.truncated)

    def look_ahead(self, rows: Rows, committed: Ints) -> NStepReturns:
        """Returns from each of ``rows``, (n,); no row at or after ``committed``, (n,), is used.

        Near that edge fewer than n steps are summed, so that the bootstrap row is always there.
        """
        available = np.minimum(self.n, committed - 1 - rows.steps)
        steps = rows.steps[:, None] + np.minimum(np.arange(self.n), available[:, None])
        rewards = _column(rows, self.rewards, steps, np.float32)
        terminated = self._any(rows, self.terminated, steps)
        ended = terminated | self._any(rows, self.truncated, steps)
        return sum_ahead(rewards, terminated, ended, available, rows.steps, self.gamma)

    @staticmethod
    def _any(rows: Rows, names: tuple[str, ...], steps: Ints) -> NDArray[np.bool_]:
        flags = np.zeros(steps.shape, np.bool_)
        for name in names:
            flags |= _column(rows, name, steps, np.bool_)
        return flags


def sum_ahead(
    rewards: Floats,
    terminated: NDArray[np.bool_],
    ended: NDArray[np.bool_],
    available: Ints,
    steps: Ints,
    gamma: float,
) -> NStepReturns:
    """The arithmetic of n-step returns.

    Args:
        rewards: (b, n) rewards of the rows from each start on.
        terminated: (b, n) whether the episode terminated there.
        ended: (b, n) whether it terminated or was truncated there.
        available: (b,) how many of the n rows may be used.
        steps: (b,) the starting rows.
        gamma: discount per step.
    """
    ahead = np.arange(rewards.shape[1])
    alive = ahead < available[:, None]
    alive[:, 1:] &= ~np.logical_or.accumulate(ended, axis=1)[:, :-1]
    lengths = alive.sum(axis=1)
    # where, not a product: rows beyond the end may hold anything, NaN included
    earned = np.where(alive, rewards * gamma**ahead, 0.0).sum(axis=1)
    discounts = np.where((terminated & alive).any(axis=1), 0.0, gamma**lengths)
    return NStepReturns(
        earned.astype(np.float32), discounts.astype(np.float32), steps + lengths, lengths
    )


def _column(rows: Rows, name: str, steps: Ints, dtype: type[np.generic]) -> NDArray[np.generic]:
    values = np.empty(steps.shape, rows.sources.key(name).dtype)
    rows.take_at(name, steps, values)
    return values.astype(dtype, copy=False)
