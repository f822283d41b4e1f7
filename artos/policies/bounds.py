"""Units of continuous actions: networks work with -1 ... 1, rows hold the environment's numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from artos.envs.spec import ActionSpec
from artos.errors import Refused

Floats = NDArray[np.float32]
_LEAST_STEPS = 1000
"""At least this many different float32 numbers must lie within the bounds of a dimension."""


class Bounds(nn.Module):
    """Converts between -1 ... 1 and the bounds of an action space, (B, size) to (B, *shape).

    A dimension without two finite bounds keeps its own units, around the allowed number nearest to
    0. One that is fixed, with equal bounds, is 0 in units, and ``free`` (size,) is False there.

    Raises:
        Refused: bounds are the wrong way round, or so close to each other that float32 cannot tell
            the actions between them apart, or no dimension is free.
    """

    middle: Tensor
    reach: Tensor

    def __init__(self, actions: ActionSpec) -> None:
        super().__init__()
        if faults := list(bound_faults(actions)):
            raise Refused(faults)
        self.shape, self.size = actions.shape, math.prod(actions.shape)
        middle, reach = units_of(actions)
        self.free_count = int(np.count_nonzero(reach))
        self.register_buffer("middle", torch.from_numpy(middle))
        self.register_buffer("reach", torch.from_numpy(reach))

    @property
    def free(self) -> Tensor:
        """Which dimensions are not fixed, (size,) bool."""
        return self.reach > 0

    def forward(self, unit: Tensor) -> Tensor:
        """Unit actions (B, size) as the environment takes them, (B, *shape)."""
        return (self.middle + self.reach * unit).reshape(len(unit), *self.shape)

    def unit(self, actions: Tensor) -> Tensor:
        """Actions (B, *shape) as a critic takes them: unit actions (B, size)."""
        there = actions.reshape(len(actions), -1) - self.middle
        if self.free_count == self.size:
            return there / self.reach
        return torch.where(self.free, there / torch.where(self.free, self.reach, 1), 0)

    def freed(self, columns: Tensor) -> Tensor:
        """Units, or terms of a sum over dimensions, (..., size): 0 for those that are fixed."""
        return columns if self.free_count == self.size else torch.where(self.free, columns, 0)

    def anything(self, rows: int) -> Tensor:
        """Uniformly random unit actions, (rows, size)."""
        return self.freed(torch.rand(rows, self.size) * 2 - 1)


def units_of(actions: ActionSpec) -> tuple[Floats, Floats]:
    """Middles and reaches of the dimensions of a Box, (size,) float32 each."""
    both = []
    for low, high in zip(actions.low, actions.high, strict=True):
        if low is not None and high is not None:
            both.append(((high + low) / 2, (high - low) / 2))
        else:
            both.append((max(0.0, low) if low is not None else min(0.0, high or 0.0), 1.0))
    middle, reach = np.array(both, np.float32).reshape(-1, 2).T.copy()
    return middle, reach


def are_own_units(actions: ActionSpec) -> bool:
    """Whether the environment's units are also those of networks: all bounds are -1 and 1."""
    middle, reach = units_of(actions)
    return bool((middle == 0).all() and (reach == 1).all())


def bound_faults(actions: ActionSpec) -> Iterator[str]:
    """What is wrong with the bounds of a Box."""
    known = [
        (i, low, high)
        for i, (low, high) in enumerate(zip(actions.low, actions.high, strict=True))
        if low is not None and high is not None
    ]
    for i, low, high in known:
        step = float(np.spacing(np.float32(max(abs(low), abs(high)))))
        if low > high:
            yield f"actions: dimension {i} has the bounds {low:g} and {high:g}: swap them"
        elif low < high < low + _LEAST_STEPS * step:
            yield (
                f"actions: between the bounds {low:.9g} and {high:.9g} of dimension {i} float32 "
                "has too few numbers: let the environment take -1 ... 1 "
                "(gymnasium.wrappers.RescaleAction)"
            )
    if (
        actions.low
        and all(low == high for _, low, high in known)
        and len(known) == len(actions.low)
    ):
        yield "actions: every dimension is fixed, its bounds are equal: there is nothing to choose"
