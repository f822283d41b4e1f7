"""What triggers ask for, and so which rounds may be sampled at once, to be used in time. Pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple, Protocol

_ANY_TIME = 1 << 62  # more than any version


class Demand(NamedTuple):
    """The rows of a firing: ``size`` in these ``keys`` of each of ``n`` actors (None: of all).

    No row is more than ``max_lag`` versions old when it is used, if that is a number. With
    ``episodes`` so many whole ones take the place of rows, whichever actors they are from.
    """

    keys: tuple[str, ...]
    n: int | None
    size: int
    max_lag: int | None
    episodes: int = 0


class Cadence(NamedTuple):
    """The versions of an object that satisfy a trigger: each ``every``-th.

    Producers may be ``lead`` rounds ahead. Actors are chosen by chance if ``probability`` is a
    number.
    """

    key: str
    every: int
    lead: int
    probability: float | None


class Limit(Protocol):
    """Says how far actors may go on sampling ahead of the learner."""

    granted: int
    """Transitions that actors made or were told to make."""
    envs: int
    """Transitions in a row, of those that it counts."""

    def may_insert(self, count: int) -> bool:
        """Whether actors may be told to make ``count`` more transitions."""


class Window:
    """Paces a workload whose updates take rounds of only some of the actors.

    A round that is granted while version v is the newest can be used by updates of versions v to
    v + ``max_lag``. No more rounds are granted than these updates can take, ``n`` each. An update
    waits for a round that is still being sampled if it would be too old for the next update, so
    slow actors and long episodes have their full share, and no row need be dropped.

    ``ahead`` updates were handed over and are not done. Without ``n`` everything is admitted.
    ``lead`` is ``max_lag`` as it holds for rounds that are granted from now on.
    """

    def __init__(self, n: int = 0, max_lag: int = 0) -> None:
        self.n, self.max_lag, self.lead, self.ahead = n, max_lag, max_lag, 0
        self._under_way: dict[int, deque[int]] = {}
        self._granted: Counter[int] = Counter()
        self._count = 0

    def in_turn(self, actors: Iterable[int], rows: Callable[[int], int]) -> Iterable[int]:
        """Actors in the order in which they are granted rounds: fewest granted ``rows`` first."""
        return sorted(actors, key=rows) if self.n else actors

    def admits(self, actor: int) -> bool:
        """Whether one more round, of this actor, can still be used in time.

        If an update takes rounds of several actors, each has at most one under way: two of the same
        actor would need two updates.
        """
        if not self.n:
            return True
        if self.n > 1 and self._under_way.get(actor):
            return False
        return self._count + self.ahead * self.n < self.n * (1 + self.lead)

    def granted(self, actor: int, version: int) -> None:
        """An actor is to sample a round with weights of this version or newer."""
        if self.n:
            self._under_way.setdefault(actor, deque()).append(version)
            self._granted[version] += 1
            self._count += 1

    def used(self, actor: int) -> None:
        """The first round of an actor that is under way was handed over, or given up."""
        if self._under_way.get(actor):
            self._granted -= Counter((self._under_way[actor].popleft(),))
            self._count -= 1

    def void(self, actor: int) -> None:
        """The actor lost its place: no update waits for the rounds that it samples again."""
        if not (rounds := self._under_way.get(actor)):
            return
        self._granted -= Counter(rounds)
        self._granted[_ANY_TIME] += len(rounds)
        self._under_way[actor] = deque([_ANY_TIME] * len(rounds))

    def waits(self, chosen: Collection[int], version: int, ready: Collection[int] = ()) -> bool:
        """Whether the update of this version must not take the rounds of the ``chosen`` actors yet.

        That is so if not all other rounds could then be used in time, and one of those rounds comes
        from an actor that is not ``ready``.
        """
        others = self._granted - Counter(r[0] for a in chosen if (r := self._under_way.get(a)))
        count = 0
        for granted in sorted(others):
            count += others[granted]
            updates = max(0, granted + self.max_lag - version)  # in time, after this one
            awaited = (r for actor, r in self._under_way.items() if r and actor not in ready)
            if count > self.n * updates and any(rounds[0] <= granted for rounds in awaited):
                return True
        return False

    def __repr__(self) -> str:
        return f"<Window n={self.n} max_lag={self.max_lag} under_way={self._count}>"
