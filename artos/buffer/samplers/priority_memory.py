"""Priorities in a file of a run's shared memory, so that they outlive who draws rows by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from artos.buffer.layout import PAGE, align
from artos.buffer.samplers.frames import Ints
from artos.buffer.samplers.sum_tree import Values, padded
from artos.buffer.segment import Segment
from artos.errors import LayoutMismatch

_MAGIC, _VERSION = 0x4152544F_53505249, 1  # "ARTOSPRI"
_HEAD = 8
_START, _STOP, _TERM = 1, 2, 3
_NO_TERM = -1


def memory_bytes(blocks: int, cells: int) -> int:
    """Bytes of shared memory for the priorities of so many blocks of ``cells`` rows."""
    return align(8 * (_HEAD + 4 * blocks + padded(blocks * cells)), PAGE)


class PriorityMemory:
    """The ``leaves`` of a sum tree, priority ** ``alpha`` each, and of which rows they are.

    ``known`` (4, blocks) int64 are the actor of each block, its first row and that after its last
    one of which there are leaves, and its term. Its writer changes leaves first and ``known``
    last: whoever reads after it was killed takes a row for new at worst.

    Raises:
        LayoutMismatch: the file is no such one.
    """

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        words = np.frombuffer(segment.memory, np.int64, len(segment) // 8)
        magic, blocks, cells = words[:3].tolist() if len(words) >= _HEAD else (0, 0, 0)
        self.cells: int = cells
        sound = magic == _MAGIC and blocks >= 1 and self.cells >= 1
        if not sound or len(segment) != memory_bytes(blocks, self.cells):
            raise LayoutMismatch(str(segment.path), "no priorities", _VERSION)
        floats = words.view(np.float64)
        self._alpha, self._highest = floats[3:4], floats[4:5]
        at = _HEAD + 4 * blocks
        self.known: Ints = words[_HEAD:at].reshape(4, blocks)
        self.leaves: Values = floats[at : at + padded(blocks * self.cells)]

    @classmethod
    def opened(cls, path: Path, actors: Sequence[int], cells: int, alpha: float) -> PriorityMemory:
        """That of a file, which is made if there is none of such blocks.

        Raises:
            ShmTooSmall: there is no room for it.
        """
        try:
            found = cls(Segment.attach(path))
            same = found.known[0].tolist() == [*actors] and found.cells == cells
            if same and found._alpha[0] == alpha:
                return found
        except (FileNotFoundError, LayoutMismatch):
            pass
        # Whole as soon as it is there: a run may be saved, or its learner killed, at any moment.
        draft = path.with_name(f".{path.name}")
        draft.unlink(missing_ok=True)
        segment = Segment.create(draft, memory_bytes(len(actors), cells))
        words = np.frombuffer(segment.memory, np.int64)
        words[:3] = _MAGIC, len(actors), cells
        words[3:5].view(np.float64)[:] = alpha, 1.0
        words[_HEAD : _HEAD + len(actors)] = actors
        draft.replace(path)
        return cls(Segment(path, segment.memory))

    @property
    def highest(self) -> float:
        """The highest priority given so far."""
        return float(self._highest[0])

    @highest.setter
    def highest(self, value: float) -> None:
        self._highest[0] = value

    def forget(self, written: Mapping[int, int]) -> None:
        """Leave only what is of rows that these actors have ``written``, and sound values."""
        for block, actor in enumerate(self.known[0].tolist()):
            first, last = self.known[_START : _STOP + 1, block].tolist()
            last = min(last, written.get(actor, last))
            first = max(min(first, last), last - self.cells, 0)
            self.known[_START : _STOP + 1, block] = first, max(first, last)
            if actor in written:  # one of the same number may be another: a cluster counts anew
                self.known[_TERM, block] = _NO_TERM
        self.leaves[~(np.isfinite(self.leaves) & (self.leaves >= 0))] = 0.0
        if not 0 < self.highest < np.inf:
            self.highest = 1.0

    def __repr__(self) -> str:
        return f"<PriorityMemory {self._segment.path} of {self.known.shape[1]} blocks>"


def copied(path: Path) -> NDArray[np.uint8]:
    """The bytes of such a file, also while priorities change: what is uncertain counts as new.

    Raises:
        LayoutMismatch: the file is no such one.
    """
    memory = PriorityMemory(Segment.attach(path))
    before = memory.known.copy()
    copy = Segment(path, memoryview(bytearray(memory._segment.memory)))
    now, after = PriorityMemory(copy), memory.known
    np.maximum(before[_START], after[_START], out=now.known[_START])
    np.minimum(before[_STOP], after[_STOP], out=now.known[_STOP])
    np.maximum(now.known[_STOP], now.known[_START], out=now.known[_STOP])
    now.known[_TERM] = before[_TERM]
    return np.frombuffer(copy.memory, np.uint8)
