"""Finds whole episodes in an actor's rows, for each environment by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from artos.buffer.actor_block import ActorBlock
from artos.specs.keys import AGES_KEY, ENDS, VALID_KEY

_NONE = -1

Flags = NDArray[np.bool_]


class Span(NamedTuple):
    """Rows ``start`` to ``stop`` of an environment that are one episode.

    It is not ``whole`` if it has no end: its actor was started again, and began another one.
    """

    env: int
    start: int
    stop: int
    whole: bool


class EpisodeEnds:
    """Follows the episodes of an actor's environments from row to row.

    An episode begins with the first row that is a transition after the end of the last one, or
    where its age is 0. Rows that are only resets (``valid`` False) belong to none.
    """

    def __init__(self, envs: int, row: int = 0) -> None:
        self.seen = row
        """Rows looked at."""
        self._begun = [_NONE] * envs
        self.over = [row] * envs
        """For each environment the row behind its last episode that is over."""

    def look(self, block: ActorBlock, stop: int) -> list[Span]:
        """The episodes that are over by row ``stop``, as they ended; each is found once."""
        start = self.seen
        if stop <= start:
            return []
        read = {
            name: np.concatenate(block.views(name, start, stop))
            for name in (AGES_KEY, VALID_KEY, *ENDS)
            if name in block.headers
        }
        ends = np.logical_or.reduce([read[name] for name in ENDS if name in read])
        return self.rows(read[AGES_KEY] == 0, ends, read.get(VALID_KEY))

    def rows(self, begins: Flags, ends: Flags, valid: Flags | None = None) -> list[Span]:
        """The same for the next rows, given as flags (rows, E); ``valid`` None: all of them."""
        start, (count, envs) = self.seen, begins.shape
        if valid is None:
            valid = np.ones((count, envs), np.bool_)
        self.seen += count
        found = [
            span
            for env in range(envs)
            for span in self._column(env, start, *(a[:, env] for a in (begins, ends, valid)))
        ]
        return sorted(found, key=lambda span: (span.stop, span.env))

    def rewind(self, rows: int) -> None:
        """Rows from ``rows`` on are void and come again."""
        self.seen = min(self.seen, rows)
        self._begun = [begun if begun < rows else _NONE for begun in self._begun]
        self.over = [min(over, rows) for over in self.over]

    def longest(self) -> tuple[int, int]:
        """The environment that has held its rows for longest, and the first row that it holds."""
        row = min(self.over)
        return self.over.index(row), row

    def _column(
        self, env: int, start: int, begins: Flags, ends: Flags, valid: Flags
    ) -> Iterator[Span]:
        begun, at = self._begun[env], 0
        for row in np.flatnonzero((begins | ends) & valid).tolist():
            if begins[row]:
                if begun != _NONE:
                    yield self._ended(env, begun, start + row, whole=False)
                begun = start + row
            elif begun == _NONE:
                begun = start + at + int(valid[at:].argmax())
            if ends[row]:
                yield self._ended(env, begun, start + row + 1, whole=True)
                begun, at = _NONE, row + 1
        if begun == _NONE and valid[at:].any():
            begun = start + at + int(valid[at:].argmax())
        self._begun[env] = begun

    def _ended(self, env: int, start: int, stop: int, *, whole: bool) -> Span:
        self.over[env] = stop
        return Span(env, start, stop, whole)

    def __repr__(self) -> str:
        return f"<EpisodeEnds seen={self.seen} over={self.over}>"
