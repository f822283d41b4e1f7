"""Names by a key that changes now and then, the lowest first. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable

Key = tuple[float, int]
_SPARE = 64


class Ranking:
    """A name is put in, moved or dropped in O(log n); the first k are found in O(k log n).

    Keys of different names differ.
    """

    def __init__(self) -> None:
        self._keys: dict[str, Key] = {}
        self._heap: list[tuple[Key, str]] = []  # also with entries of names that have moved since

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"<Ranking {len(self)} names>"

    def put(self, name: str, key: Key) -> None:
        """Put a name in, or move it, to where ``key`` says."""
        if self._keys.get(name) == key:
            return
        self._keys[name] = key
        heapq.heappush(self._heap, (key, name))
        if len(self._heap) > 2 * len(self._keys) + _SPARE:
            self._heap = [(key, name) for name, key in self._keys.items()]
            heapq.heapify(self._heap)

    def drop(self, name: str) -> None:
        """Forget a name; no error if it is not there."""
        self._keys.pop(name, None)

    def lowest(self, count: int, but: Callable[[str], object]) -> list[str]:
        """The first ``count`` names in order, without those for which ``but`` is true."""
        found: list[str] = []
        passed: list[tuple[Key, str]] = []
        while self._heap and len(found) < count:
            entry = heapq.heappop(self._heap)
            if self._keys.get(entry[1]) != entry[0] or (passed and passed[-1] == entry):
                continue
            passed.append(entry)
            if not but(entry[1]):
                found.append(entry[1])
        for entry in passed:
            heapq.heappush(self._heap, entry)
        return found
