"""Means over the rows that count."""

from __future__ import annotations

import torch
from torch import Tensor

Scale = tuple[Tensor | float, Tensor | float]
"""A mean and a deviation."""


def masked_mean(rows: Tensor, valid: Tensor | None, count: float | None = None) -> Tensor:
    """Mean (scalar) of ``rows`` (B,) where ``valid`` (B,) is True; 0 if it is True nowhere.

    With ``count`` the sum is divided by that: these rows' part of the mean over ``count`` rows.
    """
    if valid is None:
        return rows.mean() if count is None else rows.sum() / count
    # Select, do not multiply: a masked row may hold NaN.
    return torch.where(valid, rows, 0).sum() / (count or valid.sum().clamp(min=1))


def mean_and_spread(values: Tensor, valid: Tensor | None = None) -> Scale:
    """Mean and deviation of values (n,), or of the ``valid`` ones, by which they are normalised.

    One alone has no deviation, and none from its own mean: 0 and 1 leave it as it is.
    """
    if values.numel() < 2:
        return 0.0, 1.0
    if valid is None:
        return values.mean(), values.std() + 1e-8
    mean, count = masked_mean(values, valid), valid.sum()
    variance = masked_mean((values - mean).square(), valid) * count / (count - 1).clamp(min=1)
    several = count > 1
    return torch.where(several, mean, 0), torch.where(several, variance.sqrt() + 1e-8, 1)
