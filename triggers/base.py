"""The contract of a trigger: the events it is checked against, what it fires, how to compose it."""

from __future__ import annotations

import dataclasses
import inspect
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from artos.protocol.invocations import Claim


class Committed(msgspec.Struct, frozen=True):
    """An actor committed rows to the cache buffer of its node.

    ``written`` counts rows per key since the actor began; keys left out did not change. ``version``
    is the policy version of the first row added since the actor's last event; no added row is
    older. Make one event per version, because ``max_lag`` relies on it.
    """

    actor: int
    written: Mapping[str, int]
    version: int = 0


class Began(msgspec.Struct, frozen=True):
    """An actor was placed here; its rows in this cache buffer begin at row ``row``.

    It comes before any ``Committed`` of this placement; rows of earlier ones are void.
    """

    actor: int
    row: int


class Arrived(msgspec.Struct, frozen=True):
    """Rows of an actor are in the replay buffer; the fields mean the same as in ``Committed``.

    On one machine, and without a transfer trigger, every ``Committed`` is at once an ``Arrived``.
    """

    actor: int
    written: Mapping[str, int]
    version: int = 0


class Rewound(msgspec.Struct, frozen=True):
    """Arrived rows of an actor from row ``rows`` on are void: the actor was placed elsewhere.

    These rows are sampled again and arrive again. Rows already handed over stay handed over.
    """

    actor: int
    rows: int


class Resumed(msgspec.Struct, frozen=True):
    """Rows of an actor up to row ``rows`` are in the replay buffer since before the run resumed."""

    actor: int
    rows: int


class Published(msgspec.Struct, frozen=True):
    """A model-related object has a new version.

    ``ahead`` counts the learner's invocations that were handed over earlier and are not done yet:
    each of them may make one more version before rows claimed now are consumed. ``updates`` is how
    many updates the run has made by then, if the object is the weights.
    """

    key: str
    version: int
    ahead: int = 0
    updates: int = 0


class Joined(msgspec.Struct, frozen=True):
    """An actor became part of the workload.

    Its first round is sampled together with actor ``peer``'s round that begins at row ``rows``.
    The rounds that were granted before it came are complete without it.
    """

    actor: int
    peer: int = -1
    rows: int = 0


class Left(msgspec.Struct, frozen=True):
    """An actor is told to stop sampling; it leaves once it has written ``rows`` rows."""

    actor: int
    rows: int = 0


class Ungranted(msgspec.Struct, frozen=True):
    """A round that the trigger of this target asked an actor for is not granted: nobody samples it.

    It may be asked for again once something else has happened.
    """

    trigger: str
    actor: int


class Learned(msgspec.Struct, frozen=True):
    """The learner is done with an invocation that the trigger of this target fired.

    ``drew`` is False if there was no row to draw, so that it did nothing.
    """

    trigger: str
    drew: bool = True


class Tick(msgspec.Struct, frozen=True):
    """Time passed; the time itself comes with the check."""


class Recheck(msgspec.Struct, frozen=True):
    """Asks a trigger that has just fired whether there is enough for one more firing."""


Event = (
    Committed | Began | Arrived | Rewound | Resumed | Published | Joined | Left | Ungranted
    | Learned | Tick | Recheck
)  # fmt: skip


class Firing(msgspec.Struct, frozen=True):
    """What a satisfied trigger passes on (the *message* of paper Figure 10).

    ``claims`` are the rows it hands over, ``dropped`` those it gave up because they were too old,
    ``actors`` the actors it is for (None: all), ``rounds`` the number of invocations it grants,
    ``keys`` its data keys. The engine fills in ``trigger`` and ``number``.
    """

    claims: tuple[Claim, ...] = ()
    dropped: tuple[Claim, ...] = ()
    actors: tuple[int, ...] | None = None
    rounds: int = 1
    keys: tuple[str, ...] = ()
    version: int = -1
    trigger: str = ""
    number: int = 0

    def plus(self, later: Firing) -> Firing:
        """Merge with a later firing of the same trigger: all rows, the actors of either."""
        either = None
        if self.actors is not None and later.actors is not None:
            either = tuple(dict.fromkeys(self.actors + later.actors))
        return self._with(later, either)

    def meet(self, other: Firing) -> Firing:
        """Merge with the other side of ``&``: all rows, the actors that both are for."""
        if self.actors is None or other.actors is None:
            return self._with(other, other.actors if self.actors is None else self.actors)
        return self._with(other, tuple(a for a in self.actors if a in set(other.actors)))

    def _with(self, other: Firing, actors: tuple[int, ...] | None) -> Firing:
        return msgspec.structs.replace(
            self,
            claims=self.claims + other.claims,
            dropped=self.dropped + other.dropped,
            actors=actors,
            rounds=max(self.rounds, other.rounds),
            keys=tuple(dict.fromkeys(self.keys + other.keys)),
            version=max(self.version, other.version),
        )


class Trigger(ABC):
    """A condition on the buffer. Subclass it as a dataclass and write ``check``.

    Triggers are pure: no sockets, clocks or processes inside. State that ``check`` needs is kept
    in fields that are not constructor arguments (``field(init=False)``).
    """

    @abstractmethod
    def check(self, event: Event, now: float) -> Firing | None:
        """Look at one event at time ``now`` (seconds) and return a firing if satisfied.

        Called on every change of the buffer and again with ``Recheck`` after each firing, so one
        call need not return more than one firing. Its cost must not grow with the number of actors.
        """

    def due(self) -> float | None:
        """When this trigger wants a ``Tick``, in seconds of the engine's clock; None if never."""
        return None

    def keys_read(self) -> tuple[str, ...]:
        """Data keys this trigger claims; they are released when its invocation is done."""
        return ()

    def objects_read(self) -> tuple[str, ...]:
        """Object keys whose versions it waits for; the learner must publish them."""
        return ()

    @property
    def successors(self) -> bool:
        """Whether it hands over rows together with what came after each of them."""
        return any(part.successors for part in self.parts() if part is not self)

    def parts(self) -> tuple[Trigger, ...]:
        """The primitives this trigger is made of."""
        return (self,)

    def snapshot(self) -> dict[str, Any]:
        """The fields that are no arguments of the constructor, of this trigger and of its parts."""
        found = {}
        for each in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            if isinstance(value, Trigger):
                found[each.name] = value.snapshot()
            elif not each.init:
                found[each.name] = value
        return found

    def go_on(self, taken: Mapping[str, Any]) -> None:
        """Go on from the snapshot of another one that was declared alike."""
        for name, value in taken.items():
            if isinstance(part := getattr(self, name), Trigger):
                part.go_on(value)
            else:
                setattr(self, name, value)

    def encode(self) -> dict[str, Any]:
        """This declaration as plain data: type and constructor arguments.

        Raises:
            TypeError: the class is not a dataclass, so its arguments are not known.
        """
        cls = type(self)
        if not dataclasses.is_dataclass(self):
            raise TypeError(f"put @dataclass above class {cls.__name__}, as triggers are declared")
        declared = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.init}
        plain = {k: v.encode() if isinstance(v, Trigger) else v for k, v in declared.items()}
        home = cls.__module__ if cls.__module__.startswith("triggers.") else inspect.getfile(cls)
        return {"type": f"{home}:{cls.__qualname__}", "fields": plain}

    def __and__(self, other: Trigger) -> And:
        return And(self, other)

    def __or__(self, other: Trigger) -> Or:
        return Or(self, other)


@dataclass
class And(Trigger):
    """Fires when both have fired since its last firing; rows that either handed over are kept."""

    left: Trigger
    right: Trigger
    _held: list[Firing | None] = field(
        init=False, repr=False, compare=False, default_factory=lambda: [None, None]
    )

    def check(self, event: Event, now: float) -> Firing | None:
        """Latch either side; fire once both are latched."""
        # A side that is already satisfied must still see events, or it would lose count of them.
        for side, trigger in enumerate((self.left, self.right)):
            held, more = self._held[side], trigger.check(event, now)
            self._held[side] = held.plus(more) if held and more else held or more
        first, second = self._held
        if first is None or second is None:
            return None
        self._held = [None, None]
        return first.meet(second)

    def due(self) -> float | None:
        """The earlier of both."""
        return _earliest(self.left.due(), self.right.due())

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
        return f"({self.left!r} & {self.right!r})"


@dataclass
class Or(Trigger):
    """Fires whenever either fires."""

    left: Trigger
    right: Trigger
    _waiting: deque[Firing] = field(init=False, repr=False, compare=False, default_factory=deque)

    def check(self, event: Event, now: float) -> Firing | None:
        """Ask both; if both fire on one event, the second is handed over on the recheck."""
        for trigger in (self.left, self.right):
            firing = trigger.check(event, now)
            if firing is not None:
                self._waiting.append(firing)
        return self._waiting.popleft() if self._waiting else None

    def due(self) -> float | None:
        """The earlier of both."""
        return _earliest(self.left.due(), self.right.due())

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
        return f"({self.left!r} | {self.right!r})"


def _earliest(first: float | None, second: float | None) -> float | None:
    times = [time for time in (first, second) if time is not None]
    return min(times, default=None)
