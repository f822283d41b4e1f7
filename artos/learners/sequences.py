"""Rows of a batch as whole sequences, for recurrent policies.

A column is what one environment of one actor did in the steps of a batch of shape (A, T, E). A
window is one that was drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from artos.buffer.samplers.drawn_batch import DrawnBatch
from artos.buffer.samplers.priorities import WEIGHTS
from artos.buffer.samplers.sequences import MASK
from artos.buffer.samplers.transitions import INDEX
from artos.specs.keys import AGES_KEY, is_observation

Ints = NDArray[np.int64]
Shape = tuple[int, int, int]
_NO_ROWS = {INDEX, WEIGHTS}


def sequence_minibatches(shape: Shape, count: int, rng: np.random.Generator) -> Iterator[Ints]:
    """Split all columns at random into ``count`` parts that differ by at most one column.

    Yields:
        sorted flat indices over (A, T, E) of all steps of the columns.
    """
    actors, steps, envs = shape
    rows = np.arange(actors * steps * envs).reshape(shape).transpose(0, 2, 1).reshape(-1, steps)
    for part in np.array_split(rng.permutation(len(rows)), count):
        yield np.sort(rows[part].reshape(-1))


def columns(shape: Shape, index: Ints) -> Ints:
    """The number of the column, (n,), that each row at a flat index over (A, T, E) is of."""
    _, steps, envs = shape
    return index // (steps * envs) * envs + index % envs


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
    order = np.lexsort((columns(shape, index), index // envs % steps))
    return TimeMajor(order, np.argsort(order), steps)


class Windows(NamedTuple):
    """Drawn sequences as a recurrent policy goes through them: T steps of n windows, on its device.

    ``obs`` and ``rows`` are observations and all other keys, (T, n, *shape) by data key. ``state``,
    (n, *shape) by data key, is what the actor had before the first row. ``ends`` (T, n) bool says
    after which rows an episode ends, so that the state begins again, ``mask`` (T, n) bool which
    rows to learn from.
    """

    obs: dict[str, Tensor]
    rows: dict[str, Tensor]
    state: dict[str, Tensor]
    ends: Tensor
    mask: Tensor
    burn_in: int = 0

    def warmed_up(self, unroll: Callable[..., Any]) -> dict[str, Tensor]:
        """The state after the burn-in, without gradients, or as it is stored if there is none.

        ``unroll(obs, state, ends)`` returns the new state, (n, *shape) by name, as its last result.
        """
        if not self.burn_in:
            return self.state
        obs = {name: part[: self.burn_in] for name, part in self.obs.items()}
        with torch.no_grad():
            found: dict[str, Tensor] = unroll(obs, self.state, self.ends[: self.burn_in])[-1]
        return found

    @property
    def learned(self) -> Windows:
        """The rows after the burn-in; their ``state`` is stale, take ``warmed_up``'s."""
        obs, rows = (
            {name: part[self.burn_in :] for name, part in parts.items()}
            for parts in (self.obs, self.rows)
        )
        return Windows(obs, rows, self.state, self.ends[self.burn_in :], self.mask[self.burn_in :])


def windows(
    batch: DrawnBatch, state: Iterable[str], tensor: Callable[[NDArray[Any]], Tensor]
) -> Windows:
    """The windows of a drawn batch; ``state`` names the policy's recurrent state."""
    names, state = batch.keys() - _NO_ROWS, tuple(state)
    found = {name: tensor(batch[name]).transpose(0, 1) for name in names}
    ends = torch.zeros_like(found[MASK])
    ends[:-1] = found[AGES_KEY][1:] == 0
    obs = {name: part for name, part in found.items() if is_observation(name)}
    rows = {name: part for name, part in found.items() if name not in (*obs, *state, MASK)}
    first = {name: found[name][0] for name in state}
    return Windows(obs, rows, first, ends, found[MASK], batch.burn_in)
