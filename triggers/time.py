"""Fires periodically."""

from __future__ import annotations

from dataclasses import dataclass, field

from artos.spec import MODEL_PARAM
from triggers.base import Firing, Trigger
from triggers.events import Event, Published


@dataclass
class TimeTrigger(Trigger):
    """``TimeTrigger(t)`` of paper §4.2: ``t`` seconds since its last invocation.

    For temporal training and off-policy synchronisation. The first period begins with the first
    event. Periods that were missed while the node was busy are not made up for.
    """

    t: float
    _last: float | None = field(init=False, repr=False, compare=False, default=None)
    _version: int = field(init=False, repr=False, compare=False, default=-1)

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
