"""Which rows of actors a learner reads in the rest of a replay, as its records have it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from artos.buffer.samplers.looks import ROWS
from artos.runs.tape import Called, Looked, Recorded
from deploy.replay.script import Script

Ints = NDArray[np.int64]


class Reads:
    """What its invocations claim, and how many rows were there whenever it looked for any.

    A look counts for every actor, as a tape does not say of which ones it was.
    """

    def __init__(self, tapes: Iterable[Recorded], script: Script) -> None:
        claims, looks = dict[int, list[tuple[int, int]]](), list[tuple[int, int]]()
        for record in (record for tape in tapes for record in tape.records):
            if isinstance(record, Called) and record.firing in script.firings:
                for claim in script.firings[record.firing].claims:
                    claims.setdefault(claim.actor, []).append((claim.stop, claim.stop))
            elif isinstance(record, Looked) and record.what == ROWS and record.counts:
                looks.append((max(record.counts), min(record.counts)))
        self._claims = {actor: _Ahead(each) for actor, each in claims.items()}
        self._looks = _Ahead(looks)

    def any_of(self, actor: int) -> bool:
        """Whether it reads rows of an actor at all."""
        return actor in self._claims or self._looks.last > 0

    def last(self, actor: int) -> int:
        """The row up to which it reads those of an actor, at most."""
        return max(each.last for each in self._of(actor))

    def next(self, actor: int, rows: int) -> int | None:
        """How many rows there are at least when it reads on; None if it is done with ``rows``."""
        found = [each.next(rows) for each in self._of(actor)]
        return min((each for each in found if each is not None), default=None)

    def _of(self, actor: int) -> tuple[_Ahead, ...]:
        claims = self._claims.get(actor)
        return (self._looks,) if claims is None else (claims, self._looks)


class _Ahead:
    """Reads of so many rows, each ``(at most, at least)``."""

    def __init__(self, reads: Sequence[tuple[int, int]]) -> None:
        ordered = np.array(sorted({*reads, (0, 0)}), np.int64)
        self._most: Ints = ordered[:, 0]
        self._least: Ints = np.minimum.accumulate(ordered[::-1, 1])[::-1]  # of all that are to come

    @property
    def last(self) -> int:
        return int(self._most[-1])

    def next(self, rows: int) -> int | None:
        at = int(np.searchsorted(self._most, rows, side="right"))
        return int(self._least[at]) if at < len(self._least) else None
