"""The engine feeds events to triggers; what they fire is passed to its destination (Figure 10).

A trigger and its message passer are bound by a wrapper. A passer is a direct call, as here, or one
of ``triggers.passers``: a local queue, or ZeroMQ to another node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from traceback import format_exc
from typing import Generic, Protocol, TypeVar

import msgspec

from artos.clock import Clock
from artos.errors import EndlessFiring, TriggerFailed
from artos.specs.members import Member
from triggers.base import Trigger
from triggers.events import Event, Firing, Recheck, Tick

Sent_contra = TypeVar("Sent_contra", contravariant=True)
T = TypeVar("T")
_RECHECK, _TICK = Recheck(), Tick()
_MOST_PER_EVENT = 100_000


class MessagePasser(Protocol[Sent_contra]):
    """Carries messages to one destination (paper Figure 10).

    A trigger passes on a ``Firing``; the coordinator turns it into an ``Invoke``.
    """

    def pass_message(self, message: Sent_contra) -> None:
        """Hand one message over, without waiting until it is acted on."""


class DirectPasser(Generic[T]):
    """Calls a function in this process."""

    def __init__(self, target: Callable[[T], None]) -> None:
        self._target = target

    def pass_message(self, message: T) -> None:
        """Call the target."""
        self._target(message)


def direct_passers(
    target: Callable[[Member, T], None], members: Iterable[Member]
) -> dict[Member, DirectPasser[T]]:
    """A direct call for each member, with its name as the first argument."""
    return {member: DirectPasser(partial(target, member)) for member in members}


class TriggerWrapper:
    """A trigger, its id, and the passer that carries its firings (paper Figure 10)."""

    def __init__(self, trigger_id: str, trigger: Trigger, passer: MessagePasser[Firing]) -> None:
        self.trigger_id, self.trigger, self.passer = trigger_id, trigger, passer

    def check(
        self, event: Event, now: float, stamp: Callable[[str, Firing], Firing]
    ) -> Firing | None:
        """Check the trigger; if it is satisfied, stamp the firing and pass it to its destination.

        Returns the stamped firing, or None. ``stamp`` adds the trigger id and a firing id.

        Raises:
            TriggerFailed: the trigger raised, or returned something else than a firing or None.
        """
        try:
            firing = self.trigger.check(event, now)
        except Exception as error:  # whatever triggers of users raise
            raise self._failed(repr(event), f"its traceback:\n{format_exc()}") from error
        if firing is None:
            return None
        if not isinstance(firing, Firing):
            why = f"it returned {firing!r}: let check return a Firing, or None if it does not fire"
            raise self._failed(repr(event), why)
        stamped = stamp(self.trigger_id, firing)
        self.passer.pass_message(stamped)
        return stamped

    def due(self) -> float | None:
        """When the trigger wants a ``Tick``, None if it does not; raises as ``check`` does."""
        try:
            return self.trigger.due()
        except Exception as error:  # whatever triggers of users raise
            raise self._failed("when it is due", f"its traceback:\n{format_exc()}") from error

    def _failed(self, asked: str, why: str) -> TriggerFailed:
        return TriggerFailed(self.trigger_id, repr(self.trigger), asked, why)

    def __repr__(self) -> str:
        return f"<{self.trigger_id} ← {self.trigger!r}>"


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
        self._number = 0
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
        if self._feeding:  # not now: the triggers further down have not seen the present event
            return 0
        self._feeding, fired = True, 0
        try:
            while self._events:
                # One reading of the clock per event: all triggers decide at the same time.
                event, self._now = self._events.popleft(), self._clock.now()
                for wrapper in self.wrappers:
                    fired += self._exhaust(wrapper, event, fired)
        finally:
            self._feeding = False
        return fired

    def fire(self, trigger_id: str, firing: Firing) -> None:
        """Pass on a firing of a target that is due whatever its trigger waits for."""
        self._now = self._clock.now()
        (wrapper,) = (each for each in self.wrappers if each.trigger_id == trigger_id)
        wrapper.passer.pass_message(self._stamp(trigger_id, firing))

    def tick(self) -> int:
        """Let time triggers fire if one is due; returns how many firings that made."""
        due = self.due()
        return self.feed(_TICK) if due is not None and self._clock.now() >= due else 0

    def due(self) -> float | None:
        """When the next trigger wants a ``Tick``, in seconds of the clock; None if none does."""
        times = [due for w in self.wrappers if (due := w.due()) is not None]
        return min(times, default=None)

    def clocks(self) -> set[str]:
        """Targets whose triggers will fire by the clock."""
        return {w.trigger_id for w in self.wrappers if w.due() is not None}

    def _exhaust(self, wrapper: TriggerWrapper, event: Event, before: int) -> int:
        # A trigger returns one firing at a time; it is asked again until it has no more.
        fired = 0
        while wrapper.check(event, self._now, self._stamp) is not None:
            fired += 1
            event = _RECHECK
            # Those before count, too: an answer to a firing (``Ungranted``) may make it fire again.
            if before + fired >= _MOST_PER_EVENT:
                raise EndlessFiring(repr(wrapper), before + fired)
        return fired

    def _stamp(self, trigger_id: str, firing: Firing) -> Firing:
        self._number += 1
        stamped = msgspec.structs.replace(firing, trigger=trigger_id, number=self._number)
        if self._record is not None:
            self._record(self._now, stamped)
        return stamped
