"""The block of a data set: full from the start, and read only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from numpy.typing import NDArray

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.specs.data import NO_VERSION
from artos.specs.keys import VERSION_KEY

Columns = Mapping[str, NDArray[Any]]
"""Rows by data key, each (rows, environments, *shape)."""


class DataBlock(ActorBlock):
    """Rows that nobody writes any more; samplers read it as they read an actor's block."""

    @classmethod
    def filled(cls, path: Path, spec: BlockSpec, parts: Sequence[Columns]) -> Self:
        """Create the file with these rows, ``spec.capacity`` in all, one part after the other.

        Raises:
            ShmTooSmall: there is not enough shared memory; nothing is left behind.
        """
        block = cls.create(path, spec)
        for key in spec.keys:
            at = 0
            for columns in parts:
                values = columns[key.name]  # read here, if they are in a file
                array = block.arrays[key.name][at : at + len(values)]
                array[...] = values.reshape(array.shape)
                at += len(values)
        block.arrays[VERSION_KEY][...] = NO_VERSION
        block.reserve(spec.capacity, tuple(block.headers))
        block.commit(spec.capacity)
        return block

    @classmethod
    def attach(cls, path: Path) -> Self:
        """Map an existing block; whoever writes into its arrays is told that they are read-only.

        Raises:
            LayoutMismatch: not a block, half created, or of another layout version.
        """
        block = super().attach(path)
        for array in block.arrays.values():
            array.flags.writeable = False
        return block
