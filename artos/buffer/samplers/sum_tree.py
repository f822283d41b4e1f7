"""A wide sum tree: draws of many leaves in proportion to their values, in whole-array steps."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from artos.buffer.samplers.frames import Ints

_FAN = 32
_TOP = 1024

Values = NDArray[np.float64]


def padded(leaves: int) -> int:
    """The length of the array that so many leaves are in."""
    return -(-leaves // _FAN) * _FAN


class SumTree:
    """Leaves with values ≥ 0, and above them levels of sums of 32 until at most 1,024 are left.

    Schaul et al. 2016 use a binary tree; a wide one needs three rounds of array operations for a
    draw of any size instead of twenty. Parents are recomputed from their children, never by
    differences, so rounding does not add up and setting a leaf twice is like setting it once.
    ``bottom`` is where the leaves are to be, ``padded`` with zeros; those in it are those of the
    tree.
    """

    kept: ClassVar[tuple[str, ...]] = ("_levels",)

    def __init__(self, leaves: int, bottom: Values | None = None) -> None:
        self._levels = [np.zeros(padded(leaves)) if bottom is None else bottom]
        while len(below := self._levels[-1]) > _TOP:
            sums = below.reshape(-1, _FAN).sum(axis=1)
            level = np.zeros(padded(len(sums)))
            level[: len(sums)] = sums
            self._levels.append(level)

    def go_on(self, found: dict[str, list[Values]]) -> None:
        """Hold what another tree of as many leaves was ``taken`` with."""
        for level, values in zip(self._levels, found["_levels"], strict=True):
            level[:] = values

    @property
    def leaves(self) -> Values:
        """The values of all leaves, and zeros up to a multiple of 32; not to be written."""
        return self._levels[0]

    @property
    def total(self) -> float:
        """Sum of all leaves."""
        return float(self._levels[-1].sum())

    def set(self, leaves: Ints, values: Values | float) -> None:
        """Set leaves (n,) to finite values ≥ 0; if a leaf is named twice, its last value stays."""
        self._levels[0][leaves] = values
        for below, level in zip(self._levels[:-1], self._levels[1:], strict=True):
            leaves = leaves // _FAN
            differs = np.ones(len(leaves), np.bool_)
            np.not_equal(leaves[1:], leaves[:-1], out=differs[1:])
            leaves = leaves[differs]
            level[leaves] = below.reshape(-1, _FAN)[leaves].sum(axis=1)

    def draw(self, count: int, rng: np.random.Generator) -> Ints:
        """Draw ``count`` leaves in proportion to their values, one from each of equal strata.

        Never draws a leaf of value 0. The tree must not be empty (``total`` > 0).

        Returns:
            (count,) int64 leaves in rising order.
        """
        top = np.cumsum(self._levels[-1])
        mass = (np.arange(count) + rng.random(count)) * (top[-1] / count)
        mass = np.minimum(mass, np.nextafter(top[-1], 0))
        leaves: Ints = np.searchsorted(top, mass, side="right")
        mass -= top[leaves] - self._levels[-1][leaves]
        for level in self._levels[-2::-1]:
            leaves, mass = _descend(level, leaves, mass)
        return leaves

    def __repr__(self) -> str:
        return f"<SumTree of {len(self.leaves)} leaves, total {self.total:g}>"


def _descend(level: Values, nodes: Ints, mass: Values) -> tuple[Ints, Values]:
    children = level.reshape(-1, _FAN)[nodes]
    sums = np.cumsum(children, axis=1)
    # Kept below the last sum, however that was rounded, so the child found is above 0.
    mass = np.clip(mass, 0.0, np.nextafter(sums[:, -1], 0.0))
    child = (sums <= mass[:, None]).sum(axis=1)
    each = np.arange(len(nodes))
    return nodes * _FAN + child, mass - (sums[each, child] - children[each, child])
