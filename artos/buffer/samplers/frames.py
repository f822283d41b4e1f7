"""Chosen rows of several blocks, copied the shortest way; frame stacks rebuilt."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from artos.buffer.actor_block import ActorBlock
from artos.specs.keys import AGES_KEY, DataKey, Padding

Ints = NDArray[np.int64]


def frame_steps(steps: Ints, ages: NDArray[np.uint8], stack: int) -> Ints:
    """Which rows make up the stacks that end at ``steps``.

    Lag j reads row t - min(j, age of t), so before an episode's first frame that frame is repeated.

    Args:
        steps: (n,) absolute steps.
        ages: (n,) steps since the first observation of the episode.
        stack: frames in a stack.

    Returns:
        (n, stack) absolute steps, oldest frame first.
    """
    lags = np.arange(stack - 1, -1, -1, dtype=np.int64)
    return steps[:, None] - np.minimum(lags, ages[:, None])


def look_back(block: ActorBlock, names: Sequence[str]) -> int:
    """How many rows back from a row its frame stacks may reach."""
    return max(block.key(name).stack for name in names) - 1


class Sources:
    """The arrays of blocks of one workload as flat lists of values, for picking from them.

    ``padding`` says what frame stacks hold before an episode's first frame (None: as each data key
    says).

    Raises:
        ValueError: the blocks differ in capacity or environments.
    """

    def __init__(self, blocks: Sequence[ActorBlock], padding: Padding | None = None) -> None:
        sizes = {(block.spec.capacity, block.spec.envs) for block in blocks}
        if len(sizes) != 1:
            raise ValueError(f"blocks read together need one capacity and width, not {sizes}")
        self.blocks, self.padding = tuple(blocks), padding
        self.capacity, self.envs = sizes.pop()
        self._flat: dict[str, list[NDArray[Any]]] = {}

    def key(self, name: str) -> DataKey:
        """The declaration of a key.

        Raises:
            UnknownKey: the blocks have no such key.
        """
        return self.blocks[0].key(name)

    def flat(self, name: str) -> list[NDArray[Any]]:
        """Per block the values of a key as (capacity * envs, items), or (capacity, items)."""
        if name not in self._flat:
            cells = self.capacity * (self.envs if self.key(name).per_env else 1)
            self._flat[name] = [block.arrays[name].reshape(cells, -1) for block in self.blocks]
        return self._flat[name]


class Rows:
    """Rows chosen from several blocks: which block, which step, which environment; each (n,) int64.

    ``owners`` must not decrease, so that the rows of a block lie together. Reads are not checked
    here: the reader guards afterwards with the oldest row it touched.
    """

    def __init__(self, sources: Sources, owners: Ints, steps: Ints, envs: Ints) -> None:
        self.sources, self.owners, self.steps, self.envs = sources, owners, steps, envs
        edges = np.searchsorted(owners, np.arange(len(sources.blocks) + 1)).tolist()
        self._parts = [
            (owner, slice(start, stop))
            for owner, (start, stop) in enumerate(pairwise(edges))
            if start < stop
        ]

    def take(self, name: str, out: NDArray[Any]) -> None:
        """Copy the values of a key into ``out``: C-contiguous, (n, *shape), stacks (n, k, *shape).

        Raises:
            UnknownKey: the blocks have no such key.
        """
        key = self.sources.key(name)
        if (stack := key.stack) == 1:
            self.take_at(name, self.steps[:, None], out)
            return
        ages = self.ages()
        self.take_at(name, frame_steps(self.steps, ages, stack), out)
        if (self.sources.padding or key.padding) == "zero" and (ages < stack - 1).any():
            lags = np.arange(stack - 1, -1, -1)
            out[lags > ages[:, None]] = 0

    def ages(self) -> NDArray[np.uint8]:
        """Steps since the first observation of each row's episode, (n,)."""
        ages = np.empty(len(self.steps), np.uint8)
        self.take_at(AGES_KEY, self.steps[:, None], ages)
        return ages

    def take_at(self, name: str, steps: Ints, out: NDArray[Any]) -> None:
        """Copy the rows at ``steps``, (n, m), as stored, into ``out``, (n, m, *shape)."""
        key = self.sources.key(name)
        cells = steps % self.sources.capacity
        if key.per_env:
            cells *= self.sources.envs
            cells += self.envs[:, None]
        cells, frames = cells.reshape(-1), steps.shape[1]
        flat = self.sources.flat(name)
        target = out.reshape(len(cells), -1)
        for owner, part in self._parts:
            span = slice(part.start * frames, part.stop * frames)
            # No index is ever clipped, but "clip" lets NumPy write into out without another buffer.
            flat[owner].take(cells[span], 0, target[span], "clip")

    def __repr__(self) -> str:
        return f"<Rows {len(self.steps)} of {len(self._parts)} blocks>"
