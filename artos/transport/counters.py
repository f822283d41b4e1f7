"""Counters in shared memory: one process counts, another reads, and they outlive both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from artos.buffer.layout import PAGE, WORD, words_of
from artos.buffer.segment import Segment


class Counters:
    """Named counters in a file. One process adds to them, any process may read them."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        segment = Segment.attach(path) if path.exists() else Segment.create(path, PAGE)
        self._words = words_of(segment.memory, 0, PAGE // WORD)
        self._at = {name: at for at, name in enumerate(names)}

    def add(self, name: str, count: int = 1) -> None:
        """Add ``count`` to a counter."""
        self._words[self._at[name]] += count

    def __getitem__(self, name: str) -> int:
        return self._words[self._at[name]]

    def __repr__(self) -> str:
        return f"<Counters {' '.join(f'{name}={self[name]}' for name in self._at)}>"
