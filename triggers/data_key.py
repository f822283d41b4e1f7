"""Fires when enough rows of some data keys have arrived from enough actors."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from artos.messages import Claim
from triggers.base import Firing, Trigger
from triggers.events import Arrived, Event, Joined, Left, Published


@dataclass
class DataKeyTrigger(Trigger):
    """``DataKeyTrigger(keys, n, size)`` of paper §4.2: ``size`` rows of ``keys`` from ``n`` actors.

    Claims exactly those rows: each row is handed over once, actors in the order in which they became
    ready. ``n=None`` means all actors there are (a full batch), ``n=1`` is FIFO per actor. With
    ``max_lag`` rows whose policy version is more than that many versions behind the newest one are
    never handed over: producers are paced so that this hardly happens, and what must be given up is
    reported in ``Firing.dropped`` (checklist C4, leap 5).
    """

    keys: tuple[str, ...]
    n: int | None = None
    size: int = 1
    max_lag: int | None = None
    object_key: str = "model_param"
    _claimed: dict[int, int] = field(init=False, default_factory=dict)
    _available: dict[int, int] = field(init=False, default_factory=dict)
    _ready: dict[int, None] = field(init=False, default_factory=dict)
    _segments: dict[int, deque[tuple[int, int]]] = field(init=False, default_factory=dict)
    _version: int = field(init=False, default=0)

    def check(self, event: Event, now: float) -> Firing | None:
        """O(1) in the number of actors, but for the ``n`` claims of a firing."""
        match event:
            case Arrived():
                self._arrived(event)
            case Published(key=self.object_key):
                self._version = event.version
            case Joined():
                self._claimed.setdefault(event.actor, 0)
                self._available.setdefault(event.actor, 0)
            case Left():
                self._ready.pop(event.actor, None)
                self._claimed.pop(event.actor, None)
                self._available.pop(event.actor, None)
        needed = len(self._claimed) if self.n is None else self.n
        if needed == 0 or len(self._ready) < needed:
            return None
        return self._fire(needed)

    def keys_read(self) -> tuple[str, ...]:
        """The keys it claims."""
        return tuple(self.keys)

    def _arrived(self, event: Arrived) -> None:
        actor = event.actor
        if actor not in self._claimed:
            return
        rows = min(event.written.get(key, 0) for key in self.keys)
        if self.max_lag is not None and rows > self._available[actor]:
            self._segments.setdefault(actor, deque()).append((rows, event.version))
        self._available[actor] = rows
        self._mark(actor)

    def _mark(self, actor: int) -> None:
        if self._available[actor] - self._claimed[actor] >= self.size:
            self._ready.setdefault(actor)
        else:
            self._ready.pop(actor, None)

    def _fire(self, needed: int) -> Firing | None:
        chosen = [actor for actor, _ in zip(tuple(self._ready), range(needed), strict=False)]
        stale = [actor for actor in chosen if self._lag(actor) > self._bound()]
        # In actor order, so that the same rows make the same batch whoever was ready first.
        claims = tuple(self._claim(actor) for actor in sorted(stale or chosen))
        if stale:
            return Firing(dropped=claims, keys=tuple(self.keys), version=self._version)
        return Firing(claims=claims, keys=tuple(self.keys), version=self._version)

    def _claim(self, actor: int) -> Claim:
        start = self._claimed[actor]
        self._claimed[actor] = start + self.size
        # Whoever was served goes to the end of the queue, so that no actor starves the others.
        self._ready.pop(actor)
        self._mark(actor)
        return Claim(actor, start, start + self.size)

    def _bound(self) -> float:
        return float("inf") if self.max_lag is None else self.max_lag

    def _lag(self, actor: int) -> int:
        segments = self._segments.get(actor)
        while segments and segments[0][0] <= self._claimed[actor]:
            segments.popleft()
        return self._version - segments[0][1] if segments else 0
