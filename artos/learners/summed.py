"""Sums over the replicas of a learner in mid-pass, through which gradients go back to all."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from artos.learners.replicas import Replicas


class _Sum(torch.autograd.Function):
    """All need the sum, so each has the sum of all their gradients."""

    @staticmethod
    def forward(ctx: Any, mine: Tensor, replicas: Replicas) -> Tensor:
        ctx.replicas = replicas
        found = mine.clone()
        replicas.sum(found)
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        found = gradients[0].clone(memory_format=torch.contiguous_format)
        ctx.replicas.sum(found)
        return found, None


def mean_of_all(mine: Tensor, replicas: Replicas) -> Tensor:
    """Means over the rows here as those over the rows of all, weighed by ``share``.

    All must make the same calls in the same order, and differentiate what comes of them by the same
    parameters.
    """
    found: Tensor = _Sum.apply(mine * replicas.share, replicas)  # type: ignore[no-untyped-call]
    return found
