"""The wrapper that binds a trigger to its destination (paper Figure 10)."""

from __future__ import annotations

from collections.abc import Callable

from triggers.base import Firing, Trigger
from triggers.events import Event
from triggers.passers import MessagePasser


class TriggerWrapper:
    """A trigger, its id, and the passer that carries its firings (paper Figure 10)."""

    def __init__(self, trigger_id: str, trigger: Trigger, passer: MessagePasser[Firing]) -> None:
        self.trigger_id, self.trigger, self.passer = trigger_id, trigger, passer

    def check(
        self, event: Event, now: float, stamp: Callable[[str, Firing], Firing]
    ) -> Firing | None:
        """Check the trigger; if it is satisfied, stamp the firing and pass it to its destination.

        Returns the stamped firing, or None. ``stamp`` adds the trigger id and a firing id.
        """
        firing = self.trigger.check(event, now)
        if firing is None:
            return None
        stamped = stamp(self.trigger_id, firing)
        self.passer.pass_message(stamped)
        return stamped

    def __repr__(self) -> str:
        return f"<{self.trigger_id} ← {self.trigger!r}>"
