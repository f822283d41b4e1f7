"""Two triggers as one: ``&`` fires when both have fired, ``|`` when either fires."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from triggers.base import Trigger
from triggers.events import Event, Firing
from triggers.window import Demand


@dataclass
class _Pair(Trigger):
    """Two triggers as one."""

    left: Trigger
    right: Trigger

    _word = ""
    _sign = ""

    def due(self) -> float | None:
        """The earlier of both."""
        times = [due for each in (self.left, self.right) if (due := each.due()) is not None]
        return min(times, default=None)

    def overlook(self, event: Event, now: float) -> None:
        """Have both look at it; neither waits for the other because of it."""
        for each in (self.left, self.right):
            each.overlook(event, now)

    @property
    def name(self) -> str:
        """Both."""
        return f"{self.left.name} {self._sign} {self.right.name}"

    def words(self) -> str:
        """Both."""
        return f"{self.left.words()}, {self._word} {self.right.words()}"

    def keys_read(self) -> tuple[str, ...]:
        """The keys of both."""
        return self.left.keys_read() + self.right.keys_read()

    def objects_read(self) -> tuple[str, ...]:
        """The objects of both."""
        return self.left.objects_read() + self.right.objects_read()

    def parts(self) -> tuple[Trigger, ...]:
        """The primitives of both."""
        return self.left.parts() + self.right.parts()

    def __repr__(self) -> str:
        return f"({self.left!r} {self._sign} {self.right!r})"


@dataclass(repr=False)
class And(_Pair):
    """Fires when both have fired since its last firing; rows that either handed over are kept."""

    _held: list[Firing | None] = field(
        init=False, repr=False, compare=False, default_factory=lambda: [None, None]
    )
    _word, _sign = "and", "&"

    @property
    def by_rounds(self) -> bool:  # type: ignore[override]  # known once its sides are complete
        """Both grant rounds by versions: actors sample as many as both of them let them."""
        return self.left.by_rounds and self.right.by_rounds

    def check(self, event: Event, now: float) -> Firing | None:
        """Latch either side; fire once both are latched."""
        # A side that is already satisfied must still see events, or it would lose count of them.
        by_rounds = self.by_rounds
        for side, trigger in enumerate((self.left, self.right)):
            held, more = self._held[side], trigger.check(event, now)
            if held and more:
                rounds = held.rounds + more.rounds if by_rounds else 0
                more = plus(held, more)
                more = _of_rounds(more, rounds) if by_rounds else more
            self._held[side] = more or held
        first, second = self._held
        if first is None or second is None:
            return None
        self._held, both = [None, None], meet(first, second)
        if by_rounds:
            both = _of_rounds(both, min(first.rounds, second.rounds))
            left = (each.rounds - both.rounds for each in (first, second))
            self._held = [
                _of_rounds(each, rounds) if rounds else None
                for each, rounds in zip((first, second), left, strict=True)
            ]
        return both

    def snapshot(self) -> list[int | None]:
        """The version of each side's firing that waits for the other, if it only says when."""
        versions = [
            held.version if held and held.actors is None and _says_when(side) else None
            for held, side in zip(self._held, (self.left, self.right), strict=True)
        ]
        return versions if any(each is not None for each in versions) else []

    def go_on(self, versions: Sequence[int | None]) -> None:
        """Have these wait; rows and rounds of actors begin anew."""
        self._held = [None if each is None else Firing(version=each) for each in versions]

    @property
    def always_claims(self) -> bool:
        """Whether either side claims rows."""
        return any(part.demand is not None for part in self.parts())

    @property
    def waiting(self) -> tuple[Demand, ...]:
        """What either side claims waits for the other."""
        return tuple(part.demand for part in self.parts() if part.demand is not None)


@dataclass(repr=False)
class Or(_Pair):
    """Fires whenever either fires."""

    _waiting: deque[Firing] = field(init=False, repr=False, compare=False, default_factory=deque)
    _word, _sign = "or", "|"

    def check(self, event: Event, now: float) -> Firing | None:
        """Ask both; if both fire on one event, the second is handed over on the recheck."""
        for trigger in (self.left, self.right):
            firing = trigger.check(event, now)
            if firing is not None:
                self._waiting.append(firing)
        return self._waiting.popleft() if self._waiting else None

    @property
    def always_claims(self) -> bool:
        """Whether both sides claim rows."""
        return self.left.always_claims and self.right.always_claims

    @property
    def waiting(self) -> tuple[Demand, ...]:
        """What waits inside either."""
        return self.left.waiting + self.right.waiting


def plus(firing: Firing, later: Firing) -> Firing:
    """A firing and a later one of the same trigger: all rows, the actors of either."""
    either = None
    if firing.actors is not None and later.actors is not None:
        either = tuple(dict.fromkeys(firing.actors + later.actors))
    return _merged(firing, later, either)


def _says_when(trigger: Trigger) -> bool:
    """Whether its firings bring neither rows nor rounds."""
    return not any(p.demand or p.draw or p.limit or p.by_rounds for p in trigger.parts())


def _of_rounds(firing: Firing, rounds: int) -> Firing:
    return msgspec.structs.replace(firing, rounds=rounds)


def meet(one: Firing, other: Firing) -> Firing:
    """The firings of both sides of ``&``: all rows, the actors that both are for."""
    if one.actors is None or other.actors is None:
        return _merged(one, other, other.actors if one.actors is None else one.actors)
    return _merged(one, other, tuple(a for a in one.actors if a in set(other.actors)))


def _merged(one: Firing, other: Firing, actors: tuple[int, ...] | None) -> Firing:
    return msgspec.structs.replace(
        one,
        claims=one.claims + other.claims,
        dropped=one.dropped + other.dropped,
        cut=one.cut or other.cut,
        actors=actors,
        rounds=max(one.rounds, other.rounds),
        ahead=max(one.ahead, other.ahead),
        keys=tuple(dict.fromkeys(one.keys + other.keys)),
        version=max(one.version, other.version),
    )
