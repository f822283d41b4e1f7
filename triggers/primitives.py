"""The four primitive triggers of paper §4.2: on data keys, objects, time, and for transfers."""

from __future__ import annotations

import heapq
import random
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from itertools import islice
from typing import Any

from artos.buffer.samplers.patterns import Claiming
from artos.protocol.invocations import Claim
from artos.spec import MODEL_PARAM
from triggers.base import (
    Arrived,
    Began,
    Committed,
    Event,
    Firing,
    Joined,
    Left,
    Published,
    Rewound,
    Trigger,
)
from triggers.window import Window


class Supply:
    """Rows of one actor in some keys: how many arrived and were handed on, and their versions.

    All counts are absolute row numbers since the actor began. Every operation is O(keys).
    """

    def __init__(self, keys: Iterable[str], first: int = 0) -> None:
        self._arrived = dict.fromkeys(keys, first)
        self._runs: deque[tuple[int, int]] = deque()
        self.available = self.taken = first

    def add(self, written: Mapping[str, int], version: int) -> None:
        """Note what arrived; keys left out of ``written`` did not change."""
        arrived = self._arrived
        for key in arrived:
            if key in written:
                arrived[key] = written[key]
        available = min(arrived.values())
        if available <= self.available:
            return
        self.available = available
        if self._runs and self._runs[-1][1] == version:
            self._runs.pop()
        self._runs.append((available, version))

    def rewind(self, rows: int) -> None:
        """Rows from ``rows`` on arrive again, except those that were handed on already."""
        self._arrived = {key: min(count, rows) for key, count in self._arrived.items()}
        self.available = max(self.taken, min(self._arrived.values()))
        while self._runs and self._runs[-1][0] > self.available:
            _, version = self._runs.pop()
            begun = self._runs[-1][0] if self._runs else self.taken
            if begun < self.available:
                self._runs.append((self.available, version))

    @property
    def left(self) -> int:
        """Rows that arrived in all keys and were not handed on."""
        return self.available - self.taken

    @property
    def oldest_version(self) -> int:
        """The policy version of the first row that was not handed on; there must be one."""
        return self._runs[0][1]

    def take(self, count: int) -> tuple[int, int]:
        """Hand on the first ``count`` rows left: ``(start, stop)``."""
        start, self.taken = self.taken, self.taken + count
        while self._runs and self._runs[0][0] <= self.taken:
            self._runs.popleft()
        return start, self.taken

    def __repr__(self) -> str:
        return f"<Supply available={self.available} taken={self.taken}>"


@dataclass
class DataKeyTrigger(Trigger):
    """``DataKeyTrigger(keys, n, size)`` of paper §4.2: ``size`` rows of ``keys`` from ``n`` actors.

    Claims exactly those rows: each row is handed over once, actors in the order in which they
    became ready. ``n=None`` means all present actors (a full batch), ``n=1`` is FIFO per actor;
    ``sample=FullBatch()`` and ``sample=FIFO(n)`` say the same by the names of Table 1.

    While actors join and leave, a full batch holds the rounds that were granted together: it does
    not wait for an actor that joined later, and it includes the rows of one that leaves, so no
    update is delayed and all rows are used. With a number ``n``, rows of actors that left count
    too.

    With ``max_lag``, rows that will be more than that many versions old when they are consumed are
    never handed over, assuming that each invocation makes at most one version. Producers are paced
    so that this is rare, and rows that are given up are reported in ``Firing.dropped``. The code
    that grants rounds may share a ``window`` with it.
    """

    keys: tuple[str, ...]
    n: int | None = None
    size: int = 1
    max_lag: int | None = None
    object_key: str = "model_param"
    sample: InitVar[Claiming | None] = None
    window: Window = field(init=False, repr=False, compare=False, default_factory=Window)
    _supplies: dict[int, Supply] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    _members: set[int] = field(init=False, repr=False, compare=False, default_factory=set)
    _ready: OrderedDict[int, None] = field(
        init=False, repr=False, compare=False, default_factory=OrderedDict
    )
    _changes: dict[int, deque[Joined | Left]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    _version: int = field(init=False, repr=False, compare=False, default=0)
    _ahead: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self, sample: Claiming | None) -> None:
        self.keys = (self.keys,) if isinstance(self.keys, str) else tuple(self.keys)
        if sample is not None and not isinstance(sample, Claiming):
            raise TypeError(f"rows are claimed here: FullBatch() or FIFO(n); {sample} draws them")
        if sample is not None and self.n is not None:
            raise TypeError(f"say n={self.n} or sample={sample}, not both")
        self.n = self.n if sample is None else sample.n

    def check(self, event: Event, now: float) -> Firing | None:
        """O(1) in the number of actors, but for the ``n`` claims of a firing."""
        match event:
            case Arrived():
                self._supply(event.actor).add(event.written, event.version)
                self._mark(event.actor)
            case Rewound():
                self._rewind(event.actor, event.rows)
            case Published(key=self.object_key):
                self._version, self._ahead = event.version, event.ahead
            case Joined() | Left():
                self._changes.setdefault(event.actor, deque()).append(event)
                self._settle()
        needed = len(self._members) if self.n is None else self.n
        if needed == 0 or len(self._ready) < needed:
            return None
        chosen = self._chosen(needed)
        return self._fire(chosen) if chosen else None

    def keys_read(self) -> tuple[str, ...]:
        """The keys it claims."""
        return self.keys

    def taken(self, actor: int) -> int:
        """The row up to which an actor's rows were claimed."""
        return self._supplies[actor].taken if actor in self._supplies else 0

    def _supply(self, actor: int) -> Supply:
        if actor not in self._supplies:
            self._supplies[actor] = Supply(self.keys)
        return self._supplies[actor]

    def _mark(self, actor: int) -> None:
        if actor in self._members and self._supply(actor).left >= self.size:
            self._ready.setdefault(actor)

    def _rewind(self, actor: int, rows: int) -> None:
        self._supply(actor).rewind(rows)
        self.window.void(actor)
        if self._supply(actor).left < self.size:
            self._ready.pop(actor, None)

    # -- which actors to wait for --------------------------------------------------------------

    def _settle(self) -> None:
        """Between two batches: let actors whose turn has come join and leave, each in order."""
        for actor, changes in tuple(self._changes.items()):
            while changes and self._is_time(changes[0]):
                self._apply(changes.popleft())
            if not changes:
                del self._changes[actor]

    def _is_time(self, change: Joined | Left) -> bool:
        if isinstance(change, Left):
            return self._supply(change.actor).taken + self.size > change.rows
        alone = self.n is not None or change.peer not in self._members
        return alone or self._supply(change.peer).taken >= change.rows

    def _apply(self, change: Joined | Left) -> None:
        if isinstance(change, Joined):
            self._members.add(change.actor)
            self._mark(change.actor)
        elif self.n is None:
            self._members.discard(change.actor)
            self._ready.pop(change.actor, None)

    # -- firing --------------------------------------------------------------------------------

    def _chosen(self, needed: int) -> tuple[int, ...]:
        """The actors that were ready first or, if others would then be late, have the oldest rows.

        Empty if others would be too late even so: then it is better to wait.
        """
        first = tuple(islice(self._ready, needed))
        if not self.window.n or any(map(self._is_stale, first)):
            return first
        oldest = heapq.nsmallest(needed, self._ready, lambda a: self._supply(a).oldest_version)
        when_consumed = self._version + self._ahead
        if not self.window.waits(first, when_consumed):
            return first
        return () if self.window.waits(oldest, when_consumed, self._ready) else tuple(oldest)

    def _fire(self, chosen: tuple[int, ...]) -> Firing:
        stale = [actor for actor in chosen if self._is_stale(actor)]
        # In actor order, so that the same rows make the same batch in whatever order they came.
        claims = tuple(self._claim(actor) for actor in sorted(stale or chosen))
        if self.window.n:
            for actor in stale or chosen:
                self.window.used(actor)
        if self._changes:
            self._settle()
        if stale:
            return Firing(dropped=claims, keys=self.keys, version=self._version)
        self._ahead += 1
        self.window.ahead = self._ahead
        return Firing(claims=claims, keys=self.keys, version=self._version)

    def _claim(self, actor: int) -> Claim:
        start, stop = self._supply(actor).take(self.size)
        # An actor that was served goes to the end of the queue, so that none starves the others.
        self._ready.pop(actor)
        self._mark(actor)
        return Claim(actor, start, stop)

    def _is_stale(self, actor: int) -> bool:
        if self.max_lag is None:
            return False
        when_consumed = self._version + self._ahead
        return when_consumed - self._supply(actor).oldest_version > self.max_lag


@dataclass
class ObjectKeyTrigger(Trigger):
    """``ObjectKeyTrigger(key)`` of paper §4.2: on-policy synchronisation and actor invocation.

    The key is ``model_param``, the weights, or any object that the learner publishes.
    Fires on the first version it sees and on every ``every``-th after it. With ``probability``
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
    _began: bool = field(init=False, repr=False, compare=False, default=False)
    _random: random.Random = field(
        init=False, repr=False, compare=False, default_factory=random.Random
    )

    def __post_init__(self) -> None:
        self._random.seed(self.seed)

    def check(self, event: Event, now: float) -> Firing | None:
        """Only a new version of its key satisfies it."""
        match event:
            case Joined():
                self._actors[event.actor] = None
            case Left():
                self._actors.pop(event.actor, None)
            case Published(key=self.key) if self._is_turn(event.version):
                return self._fire(event.version)
        return None

    def objects_read(self) -> tuple[str, ...]:
        """Its key."""
        return (self.key,)

    def _is_turn(self, version: int) -> bool:
        # A resumed run begins with any version number, and must begin with a firing.
        self._first = version if self._first is None else self._first
        return (version - self._first) % self.every == 0

    def _fire(self, version: int) -> Firing | None:
        rounds, self._began = (1 if self._began else 1 + self.lead), True
        if self.probability is None:
            return Firing(rounds=rounds, version=version)
        chosen = tuple(a for a in self._actors if self._random.random() < self.probability)
        return Firing(actors=chosen, rounds=rounds, version=version) if chosen else None


@dataclass
class TimeTrigger(Trigger):
    """``TimeTrigger(t)`` of paper §4.2: ``t`` seconds since its last invocation.

    For temporal training and off-policy synchronisation. The first period begins with the first
    event. Periods that were missed while the node was busy are not made up for.
    """

    t: float
    _last: float | None = field(init=False, repr=False, compare=False, default=None)
    _version: int = field(init=False, repr=False, compare=False, default=-1)

    def snapshot(self) -> dict[str, Any]:
        """Without the time, which is that of this process: there the period begins anew."""
        return super().snapshot() | {"_last": None}

    def check(self, event: Event, now: float) -> Firing | None:
        """Fires on any event once the period is over; the engine sends a ``Tick`` then."""
        if isinstance(event, Published) and event.key == MODEL_PARAM:
            self._version = event.version
        if self._last is None:
            self._last = now
        if now < self._last + self.t:
            return None
        self._last = now
        return Firing(version=self._version)

    def due(self) -> float | None:
        """The end of the present period."""
        return None if self._last is None else self._last + self.t


@dataclass
class TransferTrigger(Trigger):
    """``TransferTrigger(keys, condition)`` of paper §4.2.

    ``keys`` is one group of data keys or several. Several groups are shipped one after the other,
    each as a firing of its own (the dual-stage pipeline). It fires for an actor when ``size``
    rows of all keys are committed, or, with ``condition``, for everything committed when that
    trigger fires. On one machine a transfer moves a cursor and no bytes.
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

    def check(self, event: Event, now: float) -> Firing | None:
        """One firing per stage; later stages come on the rechecks."""
        if isinstance(event, Committed):
            self._committed(event)
        elif isinstance(event, Began):
            self._supplies[event.actor] = self._supply(event.row)
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

    def _committed(self, event: Committed) -> None:
        if event.actor not in self._supplies:
            self._supplies[event.actor] = self._supply(0)
        supply = self._supplies[event.actor]
        supply.add(event.written, event.version)
        while self.condition is None and supply.left >= self.size:
            self._ship(event.actor, self.size)

    def _supply(self, row: int) -> Supply:
        return Supply((key for stage in self.stages() for key in stage), row)

    def _ship(self, actor: int, rows: int) -> None:
        supply = self._supplies[actor]
        if rows == 0:
            return
        version = supply.oldest_version
        claim = (Claim(actor, *supply.take(rows)),)
        self._queue.extend(Firing(claims=claim, keys=s, version=version) for s in self.stages())
