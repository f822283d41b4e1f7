"""Rows of an actor, cut where its policy version changes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from artos.buffer.actor_block import ActorBlock
from artos.specs.keys import VERSION_KEY


def version_runs(block: ActorBlock, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Rows ``start`` to ``stop``, of which there is one, in runs: ``(end, version)`` of each."""
    array = block.arrays[VERSION_KEY]
    last = int(array[block.index(stop - 1)])
    if int(array[block.index(start)]) == last:  # versions of an actor never go back
        yield stop, last
        return
    versions = np.concatenate(block.views(VERSION_KEY, start, stop))
    ends = np.append(np.flatnonzero(np.diff(versions)) + 1, len(versions))
    for end in ends.tolist():
        yield start + end, int(versions[end - 1])
