"""Fires when enough rows of some data keys have arrived from enough actors."""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from itertools import islice

from artos.protocol.invocations import Claim
from triggers.base import Firing, Trigger
from triggers.events import Arrived, Event, Joined, Left, Published, Rewound
from triggers.verify.supply import Supply
from triggers.window import Window


@dataclass
class DataKeyTrigger(Trigger):
    """``DataKeyTrigger(keys, n, size)`` of paper §4.2: ``size`` rows of ``keys`` from ``n`` actors.

    Claims exactly those rows: each row is handed over once, actors in the order in which they
    became ready. ``n=None`` means all present actors (a full batch), ``n=1`` is FIFO per actor.

    While actors join and leave, a full batch holds the rounds that were granted together: it does
    not wait for an actor that joined later, and it includes the rows of one that leaves, so no
    update is delayed and all rows are used. With a number ``n``, rows of actors that left count
    too.

    With ``max_lag``, rows that will be more than that many versions old when they are consumed are
    never handed over, assuming that each invocation mints at most one version. Producers are paced
    so that this is rare, and rows that are given up are reported in ``Firing.dropped``. The code
    that grants rounds may share a ``window`` with it.
    """

    keys: tuple[str, ...]
    n: int | None = None
    size: int = 1
    max_lag: int | None = None
    object_key: str = "model_param"
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

    def __post_init__(self) -> None:
        self.keys = (self.keys,) if isinstance(self.keys, str) else tuple(self.keys)

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
        """Between two batches: let actors join and leave whose turn has come, each in order."""
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

        None if others would be too late even so: then it is better to wait.
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
