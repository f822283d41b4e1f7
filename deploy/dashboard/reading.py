"""Reads pieces of a journal: every line is checked before anything is made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from deploy.tracing.events import Event, Tracer
from deploy.tracing.lines import is_replica, understood
from triggers.journal_index import JournalIndex

Line = dict[str, Any]
_FIRST = 64 << 10
"""Bytes of a journal in which all replicas have said that they are ready."""


class Reading:
    """Reads pieces of a journal as lines, or as events; counts those that cannot be understood."""

    def __init__(self, index: JournalIndex) -> None:
        self._index = index
        self.damaged = 0

    def addressed(self, begin: int, end: int) -> Iterator[tuple[int, Line]]:
        """The lines that can be understood of those between two addresses, and their own."""
        for address, line in self._index.lines(max(0, begin), end):
            if (found := understood(line)) is None:
                self.damaged += 1
            else:
                yield address, found

    def lines(self, begin: int, end: int) -> Iterator[Line]:
        """These lines without their addresses."""
        return (line for _, line in self.addressed(begin, end))

    def search(self, number: Callable[[Line], int | None], wanted: int) -> int:
        """As that of the index, which asks ``number`` of lines whatever these are."""
        return self._index.search(
            lambda line: number(line) if understood(line) is not None else None, wanted
        )

    def events(self, begin: int, end: int, steps: int) -> Iterator[Event]:
        """What these lines tell; ``steps`` is how many rows of an actor a round has."""
        begin = max(0, begin)
        offset = 1e6 * self._index.offset_at(begin)
        known = self._replicas if begin else ()
        tracer = Tracer(steps, begun=begin > 0, offset=offset, replicas={*known})
        return tracer.of(self.lines(begin, end))

    @cached_property
    def _replicas(self) -> Sequence[str]:
        """Those of learners: no line but that of their start names them."""
        lines = (understood(line) or {} for _, line in self._index.lines(0, _FIRST))
        return [name for line in lines if is_replica(name := line.get("ready", ""))]
