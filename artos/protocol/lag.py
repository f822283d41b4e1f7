"""Policy lag of rows a learner learned from: the learner's version minus the row's.

The distribution of lags is counted in classes that double: 0, 1, 2-3, 4-7, ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from artos.protocol.invocations import ActorLag

Ints = NDArray[np.int64]

Look = Callable[[int, list[int], Ints], list[int]]
"""Is told of what kind it is that a learner saw, what it was, and of which actors; returns it."""

_CLASSES = 64
_MOST_PARTS = 256


def measure(actor: int, lags: Ints, times: int = 1) -> ActorLag:
    """The lags (n,) of rows of one actor, each of which counts ``times`` times."""
    classes = tuple((np.bincount(classes_of(lags)) * times).tolist())
    largest = int(lags.max(initial=0))
    return ActorLag(actor, len(lags) * times, int(lags.sum()) * times, largest, classes)


def classes_of(lags: Ints) -> NDArray[np.intp]:
    """The class of each lag, (n,): its number of binary digits."""
    digits = np.frexp(lags.astype(np.float64))[1]
    return np.minimum(digits, _CLASSES - 1).astype(np.intp)


def class_name(number: int) -> str:
    """The lags of a class, as text: ``0``, ``1``, ``2-3``, ``4-7``."""
    first = 2 ** (number - 1) if number else 0
    last = max(first, 2**number - 1)
    return str(first) if first == last else f"{first}-{last}"


NAMES = tuple(map(class_name, range(_CLASSES)))
"""Of all classes, in order."""


def in_order(counts: Mapping[str, int]) -> dict[str, int]:
    """The counts of all classes up to the last that has any; what names no class is left out."""
    last = max((number for number, name in enumerate(NAMES) if counts.get(name)), default=-1)
    return {name: counts.get(name, 0) for name in NAMES[: last + 1]}


class Drawn:
    """Rows that samplers handed to a learner since ``begin``, and their lags.

    ``note`` is called for every sample, so it only stores its arguments until ``take``. ``stale``
    counts rows that ``max_lag`` left out since ``begin``, each when it is first left out.

    ``looked`` is called with what decides which rows these are: a replay returns what was seen
    then (``artos.runs.tape``).
    """

    def __init__(self, looked: Look = lambda what, counts, actors: counts) -> None:
        self.stale, self.looked = 0, looked
        self._parts: list[tuple[Ints, Ints]] = []
        self._known: dict[int, ActorLag] = {}
        self._version = 0

    def begin(self, version: int) -> None:
        """Forget all rows; from now on the learner is at ``version``."""
        self.stale = 0
        self._parts.clear()
        self._known.clear()
        self._version = version

    def note(self, actors: Ints, versions: Ints) -> None:
        """Note drawn rows: their actors and their versions, each (n,); both arrays are copied."""
        self._parts.append((actors.copy(), versions.copy()))
        if len(self._parts) >= _MOST_PARTS:
            self._count()

    def take(self) -> tuple[ActorLag, ...]:
        """The lags of the rows drawn since ``begin``, one entry per actor."""
        self._count()
        return tuple(self._known.values())

    def _count(self) -> None:
        if not self._parts:
            return
        actors, versions = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        self._parts.clear()
        for found in _by_actor(actors, (self._version - versions).clip(min=0)):
            self._known[found.actor] = _sum(self._known.get(found.actor), found)

    def __repr__(self) -> str:
        return f"<Drawn at version {self._version} parts={len(self._parts)}>"


class OfOthers(Drawn):
    """Rows that a learner draws of which no version of its own has made any: they have no lag."""

    def note(self, actors: Ints, versions: Ints) -> None:
        """Forget them."""


def _by_actor(actors: Ints, lags: Ints) -> Iterator[ActorLag]:
    order = np.argsort(actors, kind="stable")
    actors, lags = actors[order], lags[order]
    starts = np.flatnonzero(np.diff(actors, prepend=-1)).tolist()
    for start, stop in zip(starts, [*starts[1:], len(actors)], strict=True):
        yield measure(int(actors[start]), lags[start:stop])


def _sum(one: ActorLag | None, other: ActorLag) -> ActorLag:
    if one is None:
        return other
    return ActorLag(
        one.actor,
        one.rows + other.rows,
        one.total + other.total,
        max(one.largest, other.largest),
        added(one.classes, other.classes),
    )


def added(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """The sum of two counts by class."""
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    head = tuple(a + b for a, b in zip(longer, shorter, strict=False))
    return head + longer[len(shorter) :]
