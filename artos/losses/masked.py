"""Means over the rows that count."""

from __future__ import annotations

import torch
from torch import Tensor


def masked_mean(rows: Tensor, valid: Tensor | None, count: float | None = None) -> Tensor:
    """Mean (scalar) of ``rows`` (B,) where ``valid`` (B,) is True; 0 if it is True nowhere.

    With ``count`` the sum is divided by that: these rows' part of the mean over ``count`` rows.
    """
    if valid is None:
        return rows.mean() if count is None else rows.sum() / count
    # Select, do not multiply: a masked row may hold NaN.
    return torch.where(valid, rows, 0).sum() / (count or valid.sum().clamp(min=1))
