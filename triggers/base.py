"""The contract of a trigger: what it is asked, and how two make one."""

from __future__ import annotations

import dataclasses
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Any

from artos.protocol import invocations
from triggers import events
from triggers.events import Event, Firing
from triggers.window import Cadence, Demand, Limit, Window

if TYPE_CHECKING:
    from artos.buffer.samplers.patterns import Draw
    from artos.runs.plan import Plan
    from triggers.pairs import And, Or

# Triggers of users import them from here.
Arrived, Began, Committed, Ended = events.Arrived, events.Began, events.Committed, events.Ended
Joined, Learned, Left, Published = events.Joined, events.Learned, events.Left, events.Published
Recheck, Requested, Resumed = events.Recheck, invocations.Requested, events.Resumed
Rewound, SampledBefore = events.Rewound, events.SampledBefore
Shortened, Tick, Ungranted = events.Shortened, events.Tick, events.Ungranted

_MOST_AT_ONCE = 1000
"""Firings on one event that are overlooked; whatever fires more often does not stop at all."""


class Trigger(ABC):
    """A condition on the buffer. Subclass it as a dataclass and write ``check``.

    Triggers are pure: no sockets, clocks or processes inside, so a journal can be replayed. State
    that ``check`` needs is kept in fields that are no constructor arguments
    (``field(init=False)``).

    All other methods have defaults. By them ``artos run --explain`` and the check of a table, which
    is made before a run, know a trigger; nothing asks for its class.
    """

    window: Window | None = None
    """What paces the rounds that it claims; shared with the code that grants rounds."""
    limit: Limit | None = None
    """What paces the rounds of a ``RoundTrigger`` in its table."""
    by_rounds: bool = False
    """Whether it counts the rounds that versions let actors sample, so that none must get lost."""
    sets: tuple[float, ...] = ()
    """The values that a setting takes on when it fires, one after the other."""
    kept: tuple[str, ...] = ()
    """Attributes with which it goes on in a resumed run, where rows begin anew: plain data."""

    @abstractmethod
    def check(self, event: Event, now: float) -> Firing | None:
        """Look at one event at time ``now`` (seconds) and return a firing if satisfied.

        Called on every change of the buffer and again with ``Recheck`` after each firing, so one
        call need not return more than one firing. Its cost must not grow with the number of actors.
        """

    def overlook(self, event: Event, now: float) -> None:
        """Look at an event, and fire neither on it nor later because of it.

        So are looked at versions that a resumed run goes on from, where a firing is once and for
        all. A trigger that is made of others has these overlook it.
        """
        for each in (event, *repeat(Recheck(), _MOST_AT_ONCE)):
            if self.check(each, now) is None:
                return

    def due(self) -> float | None:
        """When this trigger wants a ``Tick``, in seconds of the engine's clock; None if never."""
        return None

    # -- what it is, for users -----------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its class, or those of its parts."""
        return type(self).__name__

    def words(self) -> str:
        """When it fires, as users read it."""
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

    def bound(self, max_lag: int, lead: int) -> None:  # noqa: B027 - most bound nothing
        """Take another ``max_lag``, where there is one, and ``lead`` for rounds from now on."""

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
    def awaits(self) -> int:
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

    @property
    def hands_over_episodes(self) -> bool:
        """Whether it claims whole episodes, for which rows have to say where these begin."""
        return any(part.demand is not None and part.demand.episodes for part in self.parts())

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
        from triggers.pairs import And  # noqa: PLC0415  # a pair is a trigger itself

        return And(self, other)

    def __or__(self, other: Trigger) -> Or:
        from triggers.pairs import Or  # noqa: PLC0415

        return Or(self, other)
