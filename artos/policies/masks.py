"""Masked actions: choices that an environment forbids in a state."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from artos.specs.keys import MASK_KEY

FORBIDDEN = -1e8
"""The logit, or value, of a masked choice: finite, so that 0 times this is 0 in every loss."""


def masked(out: Tensor, obs: Mapping[str, Tensor]) -> Tensor:
    """Logits or values (..., choices), with ``FORBIDDEN`` where choices are masked."""
    mask = obs.get(MASK_KEY)
    return out if mask is None else out.masked_fill(~mask, FORBIDDEN)


def unbiased(out: Tensor) -> Tensor:
    """Zeros for all choices of a ``masked`` output, but ``FORBIDDEN`` stays."""
    return torch.where(out == FORBIDDEN, out, 0)
