"""The rare lines of a long journal: deaths, moves, lost rows, new settings, scaling, resumes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from deploy.dashboard.reading import Line
from deploy.tracing.lines import understood
from triggers.journal_index import JournalIndex

_PIECE = 1 << 20
"""Bytes of a journal that are looked through together."""
_AT_ONCE = 16
"""Pieces for one answer, so that no answer takes longer than a fraction of a second."""
_MOST_JOURNALS = 64
_RARE = frozenset(("actors", "began", "died", "lost", "ready", "set"))
Timed = tuple[float, Line]
"""A line, and its time in seconds since the run first began."""


class RareLines:
    """Finds them piece by piece; what it found in pieces that grow no more is remembered.

    Two threads may ask at once: then both look through the same pieces, and find the same.
    """

    def __init__(self) -> None:
        self._known: dict[Path, tuple[object, dict[int, list[Timed]]]] = {}

    def of(self, index: JournalIndex, begin: int, end: int) -> tuple[list[Timed], float]:
        """Those between two addresses, and the share of it in which they are still to be found.

        Raises:
            JournalDamaged: a file of the journal cannot be read or unpacked.
        """
        first = next(iter(index.lines(0, 1)), None)
        before, known = self._known.get(index.path, (None, {}))
        if before != first:  # its run was deleted, say, and another one has its place
            known = {}
            if len(self._known) >= _MOST_JOURNALS:
                self._known.clear()
            self._known[index.path] = first, known
        found, left, looked = list[Timed](), 0, 0
        numbers = range(begin // _PIECE, -(-end // _PIECE))
        for number in reversed(numbers):  # the newest first: most people ask for these
            lines = known.get(number)
            if lines is None and looked < _AT_ONCE:
                looked += 1
                lines = [*rare_lines(index, number * _PIECE, (number + 1) * _PIECE)]
                if (number + 2) * _PIECE <= index.size:  # its last line is whole
                    known[number] = lines
            left += lines is None
            found += lines or ()
        return found, left / max(1, len(numbers))


def rare_lines(index: JournalIndex, begin: int, end: int) -> Iterator[Timed]:
    """Those between two addresses, without starts of members at the place where they were."""
    timed: Line | None = None
    for address, line in index.lines(begin, end):
        if line is None:
            continue
        if "t" in line:
            timed = line
        if "firing" in line or _RARE.isdisjoint(line) or (rare := understood(line)) is None:
            continue
        if ("began" in rare and not address) or ("ready" in rare and "to" not in rare):
            continue
        # Lines that have no time come just after one that has.
        at = (understood(timed) or {}).get("t")
        yield index.time_at(address) if at is None else index.offset_at(address) + at, rare
