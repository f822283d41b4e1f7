"""The contract of a trigger, and the two ways to compose triggers."""

from __future__ import annotations

import dataclasses
import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import msgspec

from artos.messages import Claim
from triggers.events import Event


class Firing(msgspec.Struct, frozen=True):
    """What a satisfied trigger passes on (the *message* of paper Figure 10).

    ``claims`` are the rows it hands over, ``dropped`` those it gave up because they were too old,
    ``actors`` whom it is for (None: all), ``rounds`` how many invocations it grants, ``keys`` which
    data keys are meant. ``trigger`` and ``number`` are filled in by the wrapper.
    """

    claims: tuple[Claim, ...] = ()
    dropped: tuple[Claim, ...] = ()
    actors: tuple[int, ...] | None = None
    rounds: int = 1
    keys: tuple[str, ...] = ()
    version: int = -1
    trigger: str = ""
    number: int = 0

    def merge(self, other: Firing) -> Firing:
        """Both at once, for a composed trigger."""
        both = None if self.actors is None or other.actors is None else self.actors + other.actors
        return msgspec.structs.replace(
            self,
            claims=self.claims + other.claims,
            dropped=self.dropped + other.dropped,
            actors=both,
            rounds=max(self.rounds, other.rounds),
            keys=self.keys + other.keys,
            version=max(self.version, other.version),
        )


class Trigger(ABC):
    """A condition on the buffer. Subclass it as a dataclass and write ``check``.

    Triggers are pure: no sockets, clocks or processes inside. What ``check`` needs to remember lives
    in fields that are no constructor arguments (``field(init=False)``).
    """

    @abstractmethod
    def check(self, event: Event, now: float) -> Firing | None:
        """Look at one event at time ``now`` (seconds) and return a firing if satisfied.

        Called on every change of the buffer and again with ``Recheck`` after each firing, so one
        call need not return more than one firing. Must not take longer with more actors.
        """

    def due(self) -> float | None:
        """When this trigger wants a ``Tick``, in seconds of the engine's clock, if ever."""
        return None

    def keys_read(self) -> tuple[str, ...]:
        """Data keys this trigger claims; they are released when its invocation is done."""
        return ()

    def parts(self) -> tuple[Trigger, ...]:
        """The primitives this trigger is made of."""
        return (self,)

    def encode(self) -> dict[str, Any]:
        """This declaration as plain data: type and constructor arguments."""
        declared = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.init}  # type: ignore[arg-type]
        plain = {k: v.encode() if isinstance(v, Trigger) else v for k, v in declared.items()}
        cls = type(self)
        home = cls.__module__ if cls.__module__.startswith("triggers.") else inspect.getfile(cls)
        return {"type": f"{home}:{cls.__qualname__}", "fields": plain}

    def __and__(self, other: Trigger) -> And:
        return And(self, other)

    def __or__(self, other: Trigger) -> Or:
        return Or(self, other)


@dataclass
class And(Trigger):
    """Fires when both have fired since the last time; what the first handed over is kept."""

    left: Trigger
    right: Trigger
    _held: list[Firing | None] = field(init=False, default_factory=lambda: [None, None])

    def check(self, event: Event, now: float) -> Firing | None:
        """Latch either side; fire once both are latched."""
        for side, trigger in enumerate((self.left, self.right)):
            if self._held[side] is None:
                self._held[side] = trigger.check(event, now)
            else:
                self._absorb(side, trigger, event, now)
        first, second = self._held
        if first is None or second is None:
            return None
        self._held = [None, None]
        return first.merge(second)

    def _absorb(self, side: int, trigger: Trigger, event: Event, now: float) -> None:
        # A side that is already satisfied still has to see events, or it would lose count of them;
        # what it hands over in the meantime is not lost either.
        more, held = trigger.check(event, now), self._held[side]
        if more is not None and held is not None:
            self._held[side] = held.merge(more) if more.claims or more.dropped else more

    def due(self) -> float | None:
        """The earlier of both."""
        return _earliest(self.left.due(), self.right.due())

    def keys_read(self) -> tuple[str, ...]:
        """The keys of both."""
        return self.left.keys_read() + self.right.keys_read()

    def parts(self) -> tuple[Trigger, ...]:
        """The primitives of both."""
        return self.left.parts() + self.right.parts()

    def __repr__(self) -> str:
        return f"({self.left!r} & {self.right!r})"


@dataclass
class Or(Trigger):
    """Fires when either fires."""

    left: Trigger
    right: Trigger
    _waiting: Firing | None = field(init=False, default=None)

    def check(self, event: Event, now: float) -> Firing | None:
        """Ask both; if both fire on one event the second is handed over on the recheck."""
        if self._waiting is not None:
            kept, self._waiting = self._waiting, None
            return kept
        first, second = self.left.check(event, now), self.right.check(event, now)
        if first is not None:
            self._waiting = second
            return first
        return second

    def due(self) -> float | None:
        """The earlier of both."""
        return _earliest(self.left.due(), self.right.due())

    def keys_read(self) -> tuple[str, ...]:
        """The keys of both."""
        return self.left.keys_read() + self.right.keys_read()

    def parts(self) -> tuple[Trigger, ...]:
        """The primitives of both."""
        return self.left.parts() + self.right.parts()

    def __repr__(self) -> str:
        return f"({self.left!r} | {self.right!r})"


def _earliest(first: float | None, second: float | None) -> float | None:
    times = [time for time in (first, second) if time is not None]
    return min(times, default=None)
