"""The engine: feeds events to the triggers of a workload and fires those that are satisfied."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from artos.clock import Clock
from artos.errors import EndlessFiring
from triggers.base import Firing
from triggers.events import Event, Recheck, Tick
from triggers.wrapper import TriggerWrapper

_RECHECK, _TICK = Recheck(), Tick()
_MOST_PER_EVENT = 100_000


class Engine:
    """Checks every trigger on every event, in table order, with one clock for all of them.

    ``record`` is called with each firing before it is passed on, so the order of its calls is the
    order of the run (the journal). An event that a firing causes is handled after all triggers have
    seen the present one, so every trigger sees the same events in the same order.
    """

    def __init__(
        self,
        wrappers: Sequence[TriggerWrapper],
        clock: Clock,
        record: Callable[[float, Firing], None] | None = None,
    ) -> None:
        self.wrappers = list(wrappers)
        self._clock, self._record = clock, record
        self._numbers = itertools.count(1)
        self._events: deque[Event] = deque()
        self._feeding = False

    _now: float  # when the present event was begun

    def feed(self, event: Event) -> int:
        """Check all triggers against one event; returns how many firings that made.

        Called from within a firing it only queues the event and returns 0; the call with the first
        event then returns the sum.

        Raises:
            EndlessFiring: a trigger keeps firing on one event.
        """
        self._events.append(event)
        if self._feeding:
            return 0
        self._feeding = True
        try:
            return self._drain()
        finally:
            self._feeding = False

    def tick(self) -> int:
        """Let time triggers fire if one is due; returns how many firings that made."""
        due = self.due()
        return self.feed(_TICK) if due is not None and self._clock.now() >= due else 0

    def due(self) -> float | None:
        """When the next time trigger wants to be asked, in seconds of the clock."""
        times = [due for w in self.wrappers if (due := w.trigger.due()) is not None]
        return min(times, default=None)

    def clocks(self) -> set[str]:
        """Targets whose triggers will fire by the clock."""
        return {w.trigger_id for w in self.wrappers if w.trigger.due() is not None}

    def _drain(self) -> int:
        fired = 0
        while self._events:
            event, self._now = self._events.popleft(), self._clock.now()
            for wrapper in self.wrappers:
                fired += self._exhaust(wrapper, event)
        return fired

    def _exhaust(self, wrapper: TriggerWrapper, event: Event) -> int:
        fired = 0
        while wrapper.check(event, self._now, self._stamp) is not None:
            fired += 1
            event = _RECHECK
            if fired >= _MOST_PER_EVENT:
                raise EndlessFiring(repr(wrapper), fired)
        return fired

    def _stamp(self, trigger_id: str, firing: Firing) -> Firing:
        stamped = msgspec.structs.replace(firing, trigger=trigger_id, number=next(self._numbers))
        if self._record is not None:
            self._record(self._now, stamped)
        return stamped
