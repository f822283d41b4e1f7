"""Running means and variances."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

_MOST = 1e7  # rows that count; from there on old ones are gradually forgotten


class Moments(NamedTuple):
    """Mean and variance of columns."""

    mean: Tensor
    """(width,)."""
    var: Tensor
    """(width,)."""
    rows: Tensor
    """How many rows they are computed from, a scalar."""

    def with_rows(self, x: Tensor) -> Moments:
        """The moments of all rows so far and of ``x`` (n, width) (Chan et al. 1983).

        A single row has no variance: until there are two rows it is 1.
        """
        if not len(x):
            return self
        more, mean = float(len(x)), x.mean(0)
        total = self.rows + more
        delta = mean - self.mean
        squares = torch.where(self.rows > 1, self.var * self.rows, 0)
        squares += x.var(0, correction=0) * more
        squares += delta.square() * self.rows * more / total
        var = torch.where(total > 1, squares / total, 1)
        return Moments(self.mean + delta * more / total, var, total.clamp(max=_MOST))
