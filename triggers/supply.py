"""Rows of one actor on their way through a trigger."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triggers.events import Arrived


class Supply:
    """Rows of one actor in some keys: how many arrived and were handed on, and their versions.

    All counts are absolute row numbers since the actor began. Every operation is O(keys).
    """

    def __init__(self, keys: Iterable[str], first: int = 0) -> None:
        self._arrived = dict.fromkeys(keys, first)
        self._runs: deque[tuple[int, int]] = deque()
        self.available = self.taken = first

    def arrived(self, event: Arrived, weights: str) -> None:
        """Note what arrived, by the versions of these weights."""
        self.add(event.written, event.versions.get(weights, event.version))

    def add(self, written: Mapping[str, int], version: int) -> None:
        """Note what arrived; keys left out of ``written`` did not change."""
        arrived = self._arrived
        for key in arrived:
            if key in written:
                arrived[key] = written[key]
        available = min(arrived.values())
        if available <= self.available:
            return
        self.available = available
        if self._runs and self._runs[-1][1] == version:
            self._runs.pop()
        self._runs.append((available, version))

    def rewind(self, rows: int) -> None:
        """Rows from ``rows`` on arrive again, except those that were handed on already."""
        self._arrived = {key: min(count, rows) for key, count in self._arrived.items()}
        self.available = max(self.taken, min(self._arrived.values()))
        while self._runs and self._runs[-1][0] > self.available:
            _, version = self._runs.pop()
            begun = self._runs[-1][0] if self._runs else self.taken
            if begun < self.available:
                self._runs.append((self.available, version))

    @property
    def left(self) -> int:
        """Rows that arrived in all keys and were not handed on."""
        return self.available - self.taken

    @property
    def oldest_version(self) -> int:
        """The policy version of the first row that was not handed on; there must be one."""
        return self._runs[0][1]

    def take(self, count: int) -> tuple[int, int]:
        """Hand on the first ``count`` rows left: ``(start, stop)``."""
        start, self.taken = self.taken, self.taken + count
        while self._runs and self._runs[0][0] <= self.taken:
            self._runs.popleft()
        return start, self.taken

    def __repr__(self) -> str:
        return f"<Supply available={self.available} taken={self.taken}>"
