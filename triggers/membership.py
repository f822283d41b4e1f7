"""Which actors a trigger waits for, while actors join and leave."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from triggers.events import Joined, Left

Change = Joined | Left


class Membership(set[int]):
    """The present actors, and changes that were announced and whose turn has not come."""

    def __init__(self, present: Iterable[int] = ()) -> None:
        super().__init__(present)
        self._changes: dict[int, deque[Change]] = {}

    def announced(self, change: Change) -> None:
        """The actor joins or leaves, once it is time."""
        self._changes.setdefault(change.actor, deque()).append(change)

    def settled(self, is_time: Callable[[Change], bool]) -> Iterator[Change]:
        """The changes whose turn has come, those of each actor in order."""
        for actor, changes in tuple(self._changes.items()):
            while changes and is_time(changes[0]):
                yield changes.popleft()
            if not changes:
                del self._changes[actor]
