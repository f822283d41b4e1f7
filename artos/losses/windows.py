"""Targets of action values within drawn sequences, and the scale on which they are learned."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

_EPSILON = 1e-3
"""Of ``rescaled``: its inverse exists, and grows no faster than linearly."""


class WindowReturns(NamedTuple):
    """What looking ahead within windows of T steps found; every field is (T, n).

    ``returns`` sums discounted rewards; ``steps`` is the row of the window to bootstrap from,
    ``discounts`` the factor of its value: gamma ** length, and 0 after a termination. Where
    ``counts`` is false a row has no successor in the window, and the others mean nothing.
    """

    returns: Tensor
    discounts: Tensor
    steps: Tensor
    counts: Tensor


def window_returns(
    rewards: Tensor, terminations: Tensor, mask: Tensor, gamma: float, n: int
) -> WindowReturns:
    """Returns over up to ``n`` rows from each row that counts, none beyond the window or episode.

    ``rewards``, ``terminations`` and ``mask`` (bool) are (T, n) as ``SequenceSampler`` draws them:
    where ``mask`` is true the next row is what came next, or the row terminated.
    """
    length, width = mask.shape
    step = torch.arange(length, device=mask.device).unsqueeze(1)
    valid = mask.sum(0)
    last = (valid - 1).clamp(min=0).unsqueeze(0)
    terminated = terminations.bool().gather(0, last).squeeze(0) & (valid > 0)
    # The last row of a window has no successor in it, unless it terminated.
    end = torch.where(terminated, valid, valid.clamp(max=length - 1))
    ahead = (end - step).clamp(min=0, max=n)
    returns = torch.zeros_like(rewards, dtype=torch.float32)
    for more in range(n):
        at = (step + more).clamp(max=length - 1).expand(length, width)
        # where, not a product: rows that do not count may hold anything, NaN included
        earned = torch.where(more < ahead, rewards.gather(0, at) * gamma**more, 0.0)
        returns += earned
    over = terminated & (step + ahead == end)
    discounts = torch.where(over, 0.0, gamma ** ahead.float())
    steps = (step + ahead).clamp(max=length - 1)
    return WindowReturns(returns, discounts, steps, step < end)


def rescaled(values: Tensor) -> Tensor:
    """h(x) = sign(x) (sqrt(|x| + 1) - 1) + 0.001 x (Pohlen et al. 2018): large values small."""
    return values.sign() * ((values.abs() + 1).sqrt() - 1) + _EPSILON * values


def unscaled(values: Tensor) -> Tensor:
    """The inverse of ``rescaled``."""
    root = (1 + 4 * _EPSILON * (values.abs() + 1 + _EPSILON)).sqrt()
    return values.sign() * (((root - 1) / (2 * _EPSILON)).square() - 1)
