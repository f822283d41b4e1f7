"""Fires when enough rows of some data keys have arrived from enough actors."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import islice

from artos.messages import Claim
from triggers.base import Firing, Trigger
from triggers.events import Arrived, Event, Joined, Left, Published
from triggers.supply import Supply


@dataclass
class DataKeyTrigger(Trigger):
    """``DataKeyTrigger(keys, n, size)`` of paper §4.2: ``size`` rows of ``keys`` from ``n`` actors.

    Claims exactly those rows: each row is handed over once, actors in the order in which they
    became ready. ``n=None`` means all actors there are (a full batch), ``n=1`` is FIFO per actor.
    The rows of an actor that left wait until it joins again.

    With ``max_lag`` rows whose policy version will be more than that many versions behind when they
    are consumed are never handed over, assuming that each invocation mints at most one version.
    Producers are paced so that this hardly happens, and what must be given up is reported in
    ``Firing.dropped`` (checklist C4, leap 5).
    """

    keys: tuple[str, ...]
    n: int | None = None
    size: int = 1
    max_lag: int | None = None
    object_key: str = "model_param"
    _supplies: dict[int, Supply] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    _members: set[int] = field(init=False, repr=False, compare=False, default_factory=set)
    _ready: OrderedDict[int, None] = field(
        init=False, repr=False, compare=False, default_factory=OrderedDict
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
            case Published(key=self.object_key):
                self._version, self._ahead = event.version, event.ahead
            case Joined():
                self._members.add(event.actor)
                self._mark(event.actor)
            case Left():
                self._members.discard(event.actor)
                self._ready.pop(event.actor, None)
        needed = len(self._members) if self.n is None else self.n
        if needed == 0 or len(self._ready) < needed:
            return None
        return self._fire(tuple(islice(self._ready, needed)))

    def keys_read(self) -> tuple[str, ...]:
        """The keys it claims."""
        return self.keys

    def _supply(self, actor: int) -> Supply:
        if actor not in self._supplies:
            self._supplies[actor] = Supply(self.keys)
        return self._supplies[actor]

    def _mark(self, actor: int) -> None:
        if actor in self._members and self._supply(actor).left >= self.size:
            self._ready.setdefault(actor)

    def _fire(self, chosen: tuple[int, ...]) -> Firing:
        stale = [actor for actor in chosen if self._is_stale(actor)]
        # In actor order, so that the same rows make the same batch whoever was ready first.
        claims = tuple(self._claim(actor) for actor in sorted(stale or chosen))
        if stale:
            return Firing(dropped=claims, keys=self.keys, version=self._version)
        self._ahead += 1
        return Firing(claims=claims, keys=self.keys, version=self._version)

    def _claim(self, actor: int) -> Claim:
        start, stop = self._supply(actor).take(self.size)
        # Whoever was served goes to the end of the queue, so that no actor starves the others.
        self._ready.pop(actor)
        self._mark(actor)
        return Claim(actor, start, stop)

    def _is_stale(self, actor: int) -> bool:
        if self.max_lag is None:
            return False
        when_consumed = self._version + self._ahead
        return when_consumed - self._supply(actor).oldest_version > self.max_lag
