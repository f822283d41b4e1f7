"""A batch over claimed rows: full batch and FIFO per actor (paper Table 1), in place or copied."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from artos.buffer.actor_block import ActorBlock
from artos.buffer.doorbell import fence
from artos.buffer.samplers.frames import Ints, Rows, Sources
from artos.errors import Overwritten
from artos.protocol.invocations import Claim
from artos.specs.keys import AGES_KEY, VERSION_KEY, DataKey, Padding


class BatchStore:
    """Arrays kept and reused from batch to batch, so that no batch pays for touching fresh pages.

    An array handed out is overwritten when the same name is asked for again.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, NDArray[np.uint8]] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An uninitialised C-contiguous array of this shape, in the memory kept for ``name``."""
        dtype = np.dtype(dtype)
        size = dtype.itemsize * math.prod(shape)
        memory = self._arrays.get(name)
        if memory is None or len(memory) < size:
            memory = self._arrays[name] = np.empty(size, np.uint8)
        return memory[:size].view(dtype).reshape(shape)

    def __reduce__(self) -> tuple[type[BatchStore], tuple[()]]:
        return BatchStore, ()  # what it holds is of no use to another process

    def __repr__(self) -> str:
        return f"<BatchStore {sum(memory.nbytes for memory in self._arrays.values())} bytes>"


class Batch:
    """The rows of A claims of T steps each, on blocks of E environments.

    Values keep the data keys' dtypes; nothing is copied before it is asked for. With a ``store``
    arrays are reused: what ``gather`` or ``take`` returned lasts until its next call for that key.
    ``padding`` says what frame stacks hold before an episode's first frame, if not what their data
    key says.

    ``was_read`` says whether any of its rows was looked at.

    Raises:
        ValueError: no claims, claims of unequal length, or blocks of unequal size.
    """

    def __init__(
        self,
        blocks: Mapping[int, ActorBlock],
        claims: Sequence[Claim],
        store: BatchStore | None = None,
        padding: Padding | None = None,
    ) -> None:
        lengths = {claim.stop - claim.start for claim in claims}
        if len(lengths) != 1:
            raise ValueError(f"a batch needs claims of one length, not {list(claims)}")
        self.claims = tuple(claims)
        self._sources = Sources([blocks[claim.actor] for claim in claims], padding)
        self._store = store or BatchStore()
        self._first: dict[str, list[int]] = {}
        self.was_read = False
        self.shape: tuple[int, int, int] = (len(claims), lengths.pop(), self._sources.envs)

    @property
    def names(self) -> tuple[str, ...]:
        """All keys that can be read, the implied policy version last."""
        return tuple(self._sources.blocks[0].headers)

    def __len__(self) -> int:
        """Environment steps in the batch: A * T * E."""
        return math.prod(self.shape)

    def key(self, name: str) -> DataKey:
        """The declaration of a key.

        Raises:
            UnknownKey: the blocks have no such key.
        """
        return self._sources.key(name)

    # -- in place ------------------------------------------------------------------------------

    def views(self, name: str) -> list[tuple[NDArray[Any], ...]]:
        """Per claim the rows in place, (T, E, *shape), in one view or, across the wrap, two.

        For a stacked key these are the single frames as stored. Call ``guard`` after use where rows
        may be overwritten.
        """
        self.was_read = True
        return [block.views(name, claim.start, claim.stop) for block, claim in self._pairs()]

    def guard(self, *names: str) -> None:
        """Check that no row of ``names`` was overwritten so far, earlier frames of stacks included.

        Raises:
            Overwritten: the writer lapped the reader; what was read must not be used.
        """
        fence()
        for name in names:
            if name not in self._first:
                back = self.key(name).stack - 1
                self._first[name] = [claim.start for claim in self.claims]
                if back:  # a stack reaches no further back than its episode
                    self._first[name] = [
                        claim.start
                        - min(back, int(block.arrays[AGES_KEY][block.index(claim.start)].max()))
                        for block, claim in self._pairs()
                    ]
            for (block, claim), first in zip(self._pairs(), self._first[name], strict=True):
                if first < (oldest := block.oldest(name)):
                    raise Overwritten(claim.actor, first, oldest)

    def _pairs(self) -> Iterator[tuple[ActorBlock, Claim]]:
        return zip(self._sources.blocks, self.claims, strict=True)

    # -- copied --------------------------------------------------------------------------------

    def gather(self, name: str) -> NDArray[Any]:
        """All rows of a key, (A, T, E, *shape).

        A stacked key gives (A, T, E, k, *shape), one that is not per environment (A, T, *shape).

        Raises:
            Overwritten: the writer lapped this read.
            UnknownKey: the blocks have no such key.
        """
        key = self.key(name)
        out = self._array("gather", key, self.shape if key.per_env else self.shape[:2])
        if key.stack > 1:
            flat = out.reshape(len(self), *out.shape[3:])
            self.rows(np.arange(len(self))).take(name, flat)
        else:
            for rows, views in zip(out, self.views(name), strict=True):
                at = 0
                for view in views:
                    rows[at : at + len(view)] = view
                    at += len(view)
        self.guard(name)
        return out

    def take(self, name: str, index: Ints | Rows) -> NDArray[Any]:
        """The values of a key at flat indices over (A, T, E) in C order: (n, *shape).

        Sorted indices, as ``minibatches`` gives them, are fastest. Several keys at the same indices
        share work when given the same ``rows(index)``.

        Raises:
            Overwritten: the writer lapped this read.
            UnknownKey: the blocks have no such key.
        """
        key = self.key(name)
        if isinstance(index, Rows):
            rows, order = index, None
        elif np.all(index[1:] >= index[:-1]):
            rows, order = self.rows(index), None
        else:
            order = np.argsort(index)
            rows = self.rows(index[order])
        out = self._array("take", key, (len(rows.steps),))
        target = out if order is None else self._array("sorted", key, (len(order),))
        rows.take(name, target)
        if order is not None:
            out[order] = target
        self.guard(name)
        return out

    def rows(self, index: Ints) -> Rows:
        """Decode sorted flat indices over (A, T, E) in C order, (n,) int64, once for many keys."""
        self.was_read = True
        _, length, width = self.shape
        steps, envs = np.divmod(index, width)
        claims, steps = np.divmod(steps, length)
        starts = np.array([claim.start for claim in self.claims], np.int64)
        return Rows(self._sources, claims, steps + starts[claims], envs)

    def minibatches(self, count: int, rng: np.random.Generator) -> Iterator[Ints]:
        """Split all rows at random into ``count`` parts that differ by at most one row.

        Yields:
            sorted flat indices: a minibatch has no order, and sorted it is read fastest.
        """
        for part in np.array_split(rng.permutation(len(self)), count):
            part.sort()
            yield part

    def versions(self) -> Ints:
        """The policy version of every row, (A, T) int64, a copy."""
        return self.gather(VERSION_KEY)

    def _array(self, use: str, key: DataKey, lead: tuple[int, ...]) -> NDArray[Any]:
        stack = (key.stack,) if key.stack > 1 else ()
        return self._store.array(f"{use} {key.name}", (*lead, *stack, *key.shape), key.dtype)

    def __repr__(self) -> str:
        return f"<Batch {self.shape} of {', '.join(self.names)}>"
