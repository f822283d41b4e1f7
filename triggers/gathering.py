"""When a server answers: the engine that checks its trigger, in the server's own process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from artos.clock import Clock
from triggers.base import Requested
from triggers.engine import DirectPasser, Engine, TriggerWrapper
from triggers.events import Firing
from triggers.table import decode_trigger


class Gathering:
    """Requests come in; each firing of the trigger ``encoded`` is for all that have come."""

    def __init__(
        self, target: str, encoded: Mapping[str, Any], load: Callable[[str], Any], clock: Clock
    ) -> None:
        self._fired = False
        trigger = TriggerWrapper(target, decode_trigger(encoded, load), DirectPasser(self._fire))
        self._engine, self._clock = Engine([trigger], clock), clock

    def _fire(self, firing: Firing) -> None:
        del firing
        self._fired = True

    def asked(self, actor: int, seat: int) -> None:
        """An actor has sent a request.

        Raises:
            TriggerFailed: the user's trigger raised.
        """
        self._engine.feed(Requested(actor, seat))

    def take(self) -> bool:
        """Whether it is time to answer all that have come; they are none of the next firing's.

        Raises:
            TriggerFailed: the user's trigger raised.
        """
        self._engine.tick()
        fired, self._fired = self._fired, False
        return fired

    def patience(self, longest: float) -> float:
        """Seconds until it is to be asked again, if nothing comes; ``longest`` at most."""
        due = self._engine.due()
        return longest if due is None else min(longest, max(0.0, due - self._clock.now()))
