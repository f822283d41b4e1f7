"""A learner's own copy of an actor's block, in which it finds what it found in the run."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import Layout
from artos.runs.plan import Plan
from deploy.replay.reads import Reads

Rows = tuple[int, dict[str, NDArray[np.generic]]]
"""The first of them, and the values of each key."""


class OwnBlock:
    """A copy of an actor's block, with as many of its rows as its reader has come to.

    Of the rows that its reader has not come to, those are kept that it ``reads``.
    """

    def __init__(self, block: ActorBlock, path: Path, reads: Reads) -> None:
        self._block = ActorBlock.create(path, block.spec)
        self._block.segment.memory[:] = block.segment.memory
        self._reads, self._later = reads, deque[Rows]()

    @property
    def waiting(self) -> int:
        """Rows that are kept until its reader comes to them."""
        return sum(len(next(iter(values.values()))) for _, values in self._later)

    def wrote(self, block: ActorBlock, start: int) -> None:
        """Take what is new there for later, as far as it is still read."""
        spec = block.spec
        least = self._reads.next(spec.actor, self._block.written)
        if least is None:
            return
        first = max(start, least - spec.capacity)  # rows before have gone by then
        steps = np.arange(first, min(block.written, self._reads.last(spec.actor)))
        if len(steps):
            places = steps % spec.capacity
            rows = {name: array[places] for name, array in block.arrays.items()}
            self._later.append((first, rows))

    def reach(self, rows: int) -> None:
        """Have so many rows."""
        block = self._block
        while self._later and self._later[0][0] < rows:
            start, values = self._later[0]
            first = max(start, block.written)
            end = start + len(next(iter(values.values())))
            steps = np.arange(first, min(end, rows))
            for name, array in values.items():
                block.arrays[name][steps % block.spec.capacity] = array[steps - start]
            self._come_to(min(end, rows))
            if end > rows:
                break
            self._later.popleft()
        self._come_to(rows)

    def _come_to(self, rows: int) -> None:
        """Rows between that were not kept are read by nobody."""
        if rows > self._block.written:
            self._block.reserve(rows, [*self._block.headers])
            self._block.commit(rows)


def own_bytes(plan: Plan, reads: Iterable[Reads]) -> int:
    """Bytes of shared memory that the blocks of learners with these ``reads`` take."""
    sizes = {actor: Layout(plan.block(actor)).size for actor in range(plan.actors)}
    return sum(size for each in reads for actor, size in sizes.items() if each.any_of(actor))
