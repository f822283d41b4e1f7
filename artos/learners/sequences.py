"""Rows of a batch as whole sequences, for recurrent policies.

A column is what one environment of one actor did in the steps of a batch of shape (A, T, E).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Shape = tuple[int, int, int]


def sequence_minibatches(shape: Shape, count: int, rng: np.random.Generator) -> Iterator[Ints]:
    """Split all columns at random into ``count`` parts that differ by at most one column.

    Yields:
        sorted flat indices over (A, T, E) of all steps of the columns.
    """
    actors, steps, envs = shape
    rows = np.arange(actors * steps * envs).reshape(shape).transpose(0, 2, 1).reshape(-1, steps)
    for part in np.array_split(rng.permutation(len(rows)), count):
        yield np.sort(rows[part].reshape(-1))


class TimeMajor(NamedTuple):
    """How rows are put in the order (T, n) of n whole columns: ``order``, and ``back`` again."""

    order: Ints
    back: Ints
    steps: int


def time_major(shape: Shape, index: Ints) -> TimeMajor:
    """The order of the rows at flat indices (n * T,) over (A, T, E), in whatever order these are.

    Raises:
        ValueError: the rows are not whole columns.
    """
    _, steps, envs = shape
    if len(index) % steps:
        raise ValueError(f"{len(index)} rows are not whole sequences of {steps} steps")
    columns = index // (steps * envs) * envs + index % envs
    order = np.lexsort((columns, index // envs % steps))
    return TimeMajor(order, np.argsort(order), steps)
