"""Returns as distributions on a fixed support (Bellemare et al. 2017)."""

from __future__ import annotations

import torch
from torch import Tensor


def projected(support: Tensor, probabilities: Tensor, rewards: Tensor, discounts: Tensor) -> Tensor:
    """The distribution of ``reward + discount * return`` on the same support, (n, atoms).

    ``support`` (atoms,) holds at least two evenly spaced returns, ascending; ``probabilities``
    (n, atoms) are those of the returns that follow. ``rewards`` and ``discounts`` (n,) are over any
    number of steps; a discount is 0 where the episode terminated.

    Eq. 7 of the paper: a return beyond the support counts as the nearest end of it, and one between
    two atoms is shared by them, the nearer one having more.
    """
    low, high, last = support[0], support[-1], len(support) - 1
    moved = (rewards.unsqueeze(1) + discounts.unsqueeze(1) * support).clamp(low, high)
    place = ((moved - low) * (last / (high - low))).clamp(0, last)  # rounding may leave the ends
    below = place.floor()
    to_upper, lower = probabilities * (place - below), below.long()
    found = torch.zeros_like(probabilities)
    found.scatter_add_(1, lower, probabilities - to_upper)
    return found.scatter_add_(1, (lower + 1).clamp(max=last), to_upper)
