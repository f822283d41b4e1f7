"""Solves linear systems that are known by their products with vectors."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_SOLVED = 1e-10


def conjugate_gradients(of: Callable[[Tensor], Tensor], wanted: Tensor, steps: int) -> Tensor:
    """About the vector that a positive definite matrix, ``of`` a vector, maps to ``wanted`` (N,).

    It is within the span of the first ``steps`` residuals (Hestenes and Stiefel 1952).
    """
    found, residual = torch.zeros_like(wanted), wanted.clone()
    along, square = residual.clone(), residual @ residual
    for _ in range(steps):
        if square.item() < _SOLVED:
            break
        mapped = of(along)
        length = square / (along @ mapped)
        found += length * along
        residual -= length * mapped
        square, before = residual @ residual, square
        along = residual + square / before * along
    return found
