"""The primitive triggers on objects, on time, and for transfers (paper §4.2)."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from artos.protocol.invocations import Claim
from artos.specs.keys import MODEL_PARAM
from triggers.base import Trigger
from triggers.checks import counts, is_within, short, unknown_data, unpublished
from triggers.events import Began, Committed, Event, Firing, Joined, Left, Published, Resumed
from triggers.pacing import in_step, lead
from triggers.supply import Supply
from triggers.targets import parsed
from triggers.window import Cadence

if TYPE_CHECKING:
    from artos.runs.plan import Plan


@dataclass
class ObjectKeyTrigger(Trigger):
    """``ObjectKeyTrigger(key)`` of paper §4.2: on-policy synchronisation and actor invocation.

    The key is ``model_param``, the weights, or any object that the learner publishes; with several
    learners ``ROLE/OBJECT``, where the first one's may be named without its role.
    Fires on the first version it sees and on every ``every``-th after it, and once more on the
    version from which a resumed run goes on. With ``probability``
    each actor is chosen independently with that probability, from the trigger's own random stream
    seeded by ``seed``. ``lead`` lets producers be that many rounds ahead of the versions: the
    first firing grants ``1 + lead`` rounds and every later one grants one. If each version consumes
    one round of every actor, no row is more than ``lead`` versions old when it is consumed.
    """

    key: str = "model_param"
    every: int = 1
    probability: float | None = None
    seed: int = 0
    lead: int = 0
    _actors: dict[int, None] = field(init=False, repr=False, compare=False, default_factory=dict)
    _first: int | None = field(init=False, repr=False, compare=False, default=None)
    # Rounds that actors may be ahead by the table, and those that they were granted for it.
    _lead: int = field(init=False, repr=False, compare=False, default=0)
    _ahead: int = field(init=False, repr=False, compare=False, default=0)
    _paced: bool = field(init=False, repr=False, compare=False, default=False)
    _samples: bool = field(init=False, repr=False, compare=False, default=False)
    by_rounds: bool = field(init=False, repr=False, compare=False, default=False)
    _in_step: bool = field(init=False, repr=False, compare=False, default=False)
    _random: random.Random = field(
        init=False, repr=False, compare=False, default_factory=random.Random
    )

    def __post_init__(self) -> None:
        self._random.seed(self.seed)
        self._lead = self.lead

    @property
    def kept(self) -> tuple[str, ...]:  # type: ignore[override]  # known once it is complete
        """From which version it counts; rounds of actors are counted anew."""
        return () if self._samples else ("_first",)

    def words(self) -> str:
        """Which versions, of which actors."""
        every = "every version" if self.every == 1 else f"versions 0, {self.every}, ..."
        chance = "" if self.probability is None else f", each actor by {self.probability:g}"
        ahead = f", actors up to {self._lead} rounds ahead" if self._lead else ""
        return f"{every} of {self.key}{chance}{ahead}"

    def faults(self, plan: Plan) -> Iterator[str]:
        """An object that nobody publishes, and numbers that are none."""
        yield from unpublished(self.key, plan)
        yield from counts(1, every=self.every)
        yield from counts(0, lead=self.lead)
        if self.probability is not None and not is_within(self.probability, 0, 1):
            yield f"probability must be above 0 and at most 1, not {self.probability!r}"

    def complete(self, target: str, plan: Plan, table: Mapping[str, Trigger]) -> None:
        """Where the weights fire sampling, actors may be as far ahead as lags allow."""
        self.key, weights = plan.object_name(self.key), {*map(plan.weights_of, plan.learners)}
        self._samples = parsed(target).samples
        if self._samples and self.key in weights:
            self._lead = max(self.lead, lead(table))
            self._paced, self.by_rounds = True, self.probability is None
            self._in_step = self.every == 1 and in_step(plan, table)

    def bound(self, max_lag: int, lead: int) -> None:
        """Rounds that it fires are so many more or fewer."""
        if self._paced:
            self._lead = max(self.lead, lead)

    @property
    def cadence(self) -> Cadence:
        """The versions that satisfy it."""
        return Cadence(self.key, self.every, self._lead, self.probability)

    def check(self, event: Event, now: float) -> Firing | None:
        """Only a new version of its key satisfies it."""
        match event:
            case Joined():
                self._actors[event.actor] = None
            case Left():
                self._actors.pop(event.actor, None)
            case Published(key=self.key):
                # A resumed run begins with any version number, and must begin with a firing.
                self._first = event.version if self._first is None else self._first
                if (event.version - self._first) % self.every and not event.again:
                    return None
                rounds = 1 + self._lead - self._ahead
                if rounds <= 0 and self._in_step:
                    self._ahead -= 1  # they are too far ahead since ``max_lag`` was lowered
                    return None
                rounds, self._ahead = max(1, rounds), self._lead
                most = 1 + self._lead
                if self.probability is None:
                    return Firing(rounds=rounds, version=event.version, ahead=most)
                chosen = tuple(a for a in self._actors if self._random.random() < self.probability)
                if chosen:
                    return Firing(actors=chosen, rounds=rounds, version=event.version, ahead=most)
        return None

    def objects_read(self) -> tuple[str, ...]:
        """Its key."""
        return (self.key,)


@dataclass
class TimeTrigger(Trigger):
    """``TimeTrigger(t)`` of paper §4.2: ``t`` seconds since its last invocation.

    For temporal training and off-policy synchronisation. The first period begins with the first
    event, in a resumed run as long before as the run had waited. Periods that were missed while the
    node was busy are not made up for.
    """

    kept = ("_waited",)
    t: float
    _last: float | None = field(init=False, repr=False, compare=False, default=None)
    _waited: float = field(init=False, repr=False, compare=False, default=0.0)
    """Seconds of the present period at the last event."""
    _version: int = field(init=False, repr=False, compare=False, default=-1)

    def words(self) -> str:
        """Its period."""
        return f"every {self.t:g} s"

    def faults(self, plan: Plan) -> Iterator[str]:
        """A period that is none."""
        if not is_within(self.t, 0, math.inf) or self.t == math.inf:
            yield f"t must be a positive number of seconds, not {self.t!r}"

    def check(self, event: Event, now: float) -> Firing | None:
        """Fires on any event once the period is over; the engine sends a ``Tick`` then."""
        if isinstance(event, Published) and event.key == MODEL_PARAM:
            self._version = event.version
        if self._last is None:
            self._last = now - self._waited
        if fires := now >= self._last + self.t:
            self._last = now
        self._waited = now - self._last
        return Firing(version=self._version) if fires else None

    def due(self) -> float | None:
        """The end of the present period."""
        return None if self._last is None else self._last + self.t


@dataclass
class TransferTrigger(Trigger):
    """``TransferTrigger(keys, condition)`` of paper §4.2.

    ``keys`` is one group of data keys or several. Several groups are shipped one after the other,
    each as a firing of its own (the dual-stage pipeline). It fires for an actor when ``size``
    rows of all keys are committed (0: with each commit, for all of its rows), or, with
    ``condition``, for everything committed when that trigger fires. On one machine a transfer moves
    a cursor and no bytes.
    """

    keys: tuple[tuple[str, ...], ...] | tuple[str, ...]
    size: int = 1
    condition: Trigger | None = None
    _supplies: dict[int, Supply] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    _queue: deque[Firing] = field(init=False, repr=False, compare=False, default_factory=deque)

    def __post_init__(self) -> None:
        keys = (self.keys,) if isinstance(self.keys, str) else self.keys
        self.keys = tuple(key if isinstance(key, str) else tuple(key) for key in keys)  # type: ignore[assignment]

    def stages(self) -> tuple[tuple[str, ...], ...]:
        """The groups of keys in the order in which they are shipped."""
        if all(isinstance(key, str) for key in self.keys):
            return (tuple(str(key) for key in self.keys),)
        return tuple((key,) if isinstance(key, str) else key for key in self.keys)

    def words(self) -> str:
        """What it ships, and when."""
        stages = " then ".join(short(stage) for stage in self.stages())
        if self.condition is None:
            return f"{self.size or 'any number of'} rows of {stages}"
        return f"{self.condition.words()}: all rows of {stages}"

    def faults(self, plan: Plan) -> Iterator[str]:
        """Keys that are not there, and numbers that are none."""
        yield from unknown_data([key for stage in self.stages() for key in stage], plan)
        yield from counts(0, size=self.size)

    def misfit(self, target: str) -> str:
        """It ships rows, and fires nobody."""
        if parsed(target).ships:
            return ""
        return 'a TransferTrigger fires transfers: write "transfer": TransferTrigger()'

    @property
    def awaits(self) -> int:
        """Rows of each actor that it ships at once."""
        return self.size

    def check(self, event: Event, now: float) -> Firing | None:
        """One firing per stage; later stages come on the rechecks."""
        if isinstance(event, Committed):
            if event.actor not in self._supplies:
                self._supplies[event.actor] = self._supply(0)
            supply = self._supplies[event.actor]
            supply.add(event.written, event.version)
            while self.condition is None and supply.left >= max(1, self.size):
                self._ship(event.actor, self.size or supply.left)
        elif isinstance(event, Began):
            self._supplies[event.actor] = self._supply(event.row)
        elif isinstance(event, Resumed):
            self._supplies[event.actor] = self._supply(event.rows)
        if self.condition is not None and self.condition.check(event, now) is not None:
            for actor, supply in self._supplies.items():
                self._ship(actor, supply.left)
        return self._queue.popleft() if self._queue else None

    def due(self) -> float | None:
        """When its condition wants a ``Tick``."""
        return None if self.condition is None else self.condition.due()

    def parts(self) -> tuple[Trigger, ...]:
        """Itself and the primitives of its condition."""
        return (self,) if self.condition is None else (self, *self.condition.parts())

    def _supply(self, row: int) -> Supply:
        return Supply((key for stage in self.stages() for key in stage), row)

    def _ship(self, actor: int, rows: int) -> None:
        supply = self._supplies[actor]
        if rows == 0:
            return
        version = supply.oldest_version
        claim = (Claim(actor, *supply.take(rows)),)
        self._queue.extend(Firing(claims=claim, keys=s, version=version) for s in self.stages())
