"""The contract of a trigger: what it is asked, and how two make one."""

from __future__ import annotations

import dataclasses
import inspect
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from triggers import events
from triggers.events import Event, Firing
from triggers.window import Window

if TYPE_CHECKING:
    from artos.buffer.samplers.patterns import Draw
    from artos.plan import Plan

# Triggers of users import them from here.
Arrived, Began, Committed, Joined = events.Arrived, events.Began, events.Committed, events.Joined
Learned, Left, Published, Recheck = events.Learned, events.Left, events.Published, events.Recheck
Resumed, Rewound, Tick, Ungranted = events.Resumed, events.Rewound, events.Tick, events.Ungranted


class Demand(NamedTuple):
    """The rows of a firing: ``size`` in these ``keys`` of each of ``n`` actors (None: of all).

    No row is more than ``max_lag`` versions old when it is used, if that is a number.
    """

    keys: tuple[str, ...]
    n: int | None
    size: int
    max_lag: int | None


class Cadence(NamedTuple):
    """The versions of an object that satisfy a trigger: each ``every``-th.

    Producers may be ``lead`` rounds ahead. Actors are chosen by chance if ``probability`` is a
    number.
    """

    key: str
    every: int
    lead: int
    probability: float | None


class Trigger(ABC):
    """A condition on the buffer. Subclass it as a dataclass and write ``check``.

    Triggers are pure: no sockets, clocks or processes inside. State that ``check`` needs is kept
    in fields that are not constructor arguments (``field(init=False)``).

    All other methods have defaults. By them ``artos run --explain`` and the check of a table, which
    is made before a run, know a trigger; nothing asks for its class.
    """

    window: Window | None = None
    """What paces the rounds that it claims; shared with whoever grants rounds."""

    @abstractmethod
    def check(self, event: Event, now: float) -> Firing | None:
        """Look at one event at time ``now`` (seconds) and return a firing if satisfied.

        Called on every change of the buffer and again with ``Recheck`` after each firing, so one
        call need not return more than one firing. Its cost must not grow with the number of actors.
        """

    def due(self) -> float | None:
        """When this trigger wants a ``Tick``, in seconds of the engine's clock; None if never."""
        return None

    # -- what it is, for users -----------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its class, or those of its parts."""
        return type(self).__name__

    def words(self) -> str:
        """When it fires, in words."""
        return repr(self)

    def faults(self, plan: Plan) -> Iterator[str]:
        """What is wrong with its arguments in this plan, each with what to change."""
        return iter(())

    def misfit(self, target: str) -> str:
        """Why it cannot fire this target, and what to write; "" if it can."""
        return ""

    def complete(  # noqa: B027 - most have nothing to take over
        self, target: str, plan: Plan, table: Mapping[str, Trigger]
    ) -> None:
        """Take over what follows for it from the plan and the whole table; may be called again."""

    # -- what it reads -------------------------------------------------------------------------

    def keys_read(self) -> tuple[str, ...]:
        """Data keys this trigger claims; they are released when its invocation is done."""
        return ()

    def objects_read(self) -> tuple[str, ...]:
        """Object keys whose versions it waits for; the learner must publish them."""
        return ()

    @property
    def demand(self) -> Demand | None:
        """The rows that each of its firings claims; None if it claims none."""
        return None

    @property
    def cadence(self) -> Cadence | None:
        """The versions that it waits for; None if it waits for none, or for other things too."""
        return None

    @property
    def draw(self) -> Draw | None:
        """How the learner draws rows when it fires; None if it draws none."""
        return None

    def stages(self) -> tuple[tuple[str, ...], ...]:
        """The groups of data keys that it ships, one after the other."""
        return ()

    @property
    def rows(self) -> int:
        """Rows of each actor that it waits for; 0 if it waits for none."""
        return self.demand.size if self.demand is not None else 0

    def taken(self, actor: int) -> int:
        """The row up to which it has claimed an actor's rows."""
        return 0

    @property
    def always_claims(self) -> bool:
        """Whether every firing claims rows."""
        return self.demand is not None

    @property
    def waiting(self) -> tuple[Demand, ...]:
        """Demands whose claimed rows wait for something else before it fires."""
        return ()

    @property
    def successors(self) -> bool:
        """Whether it hands over rows together with what came after each of them."""
        return any(part.successors for part in self.parts() if part is not self)

    def parts(self) -> tuple[Trigger, ...]:
        """The primitives this trigger is made of."""
        return (self,)

    # -- how it travels ------------------------------------------------------------------------

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
