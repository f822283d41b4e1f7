"""The trigger that has parked actors back before they are needed (paper §4.3)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from artos.runs.plan import Plan
from triggers.events import Event, Firing
from triggers.primitives import TimeTrigger

PREWARM = "actors.prewarm"
"""The target that has parked actors restored; they are given nothing to do."""


@dataclass
class PrewarmTrigger(TimeTrigger):
    """A ``TimeTrigger`` whose period begins with an update of the learner, and is not repeated.

    The run's forecast says how many seconds ``t`` after the beginning of an update actors are to be
    restored, each time again; until then ``t`` is infinite.
    """

    kept = ()  # type: ignore[assignment]  # an update begins its period
    t: float = field(init=False, repr=False, compare=False, default=math.inf)

    def began(self, now: float, t: float) -> None:
        """An update began at time ``now``: fire ``t`` seconds later, unless it is over by then."""
        self._last, self.t = now, t

    def ended(self) -> None:
        """The update is over."""
        self._last = None

    def words(self) -> str:
        """That its time is a forecast, and another one for each update."""
        return "shortly before the next version, as forecast"

    def faults(self, plan: Plan) -> Iterator[str]:
        """None: its time is not an argument."""
        return iter(())

    def misfit(self, target: str) -> str:
        """It is for one target."""
        return (
            ""
            if target == PREWARM
            else f"a PrewarmTrigger only has actors restored: write {PREWARM!r}"
        )

    def check(self, event: Event, now: float) -> Firing | None:
        """Fires once the period is over, on any event; the engine sends a ``Tick`` then."""
        due = self.due()
        if due is None or now < due:
            return None
        self._last = None
        return Firing()

    def due(self) -> float | None:
        """The end of the present period; None if there is none."""
        return None if self._last is None or self.t == math.inf else self._last + self.t
