"""Has parked actors back when the next version comes (paper §4.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from artos.protocol.invocations import Done, Invoke
from artos.specs.members import ACTORS, Member
from head.run.concerns.forecast import Forecast, QuantileForecast, WindowForecast
from head.run.coordination.concern import NOTHING, Concern
from head.run.run import Run
from triggers.events import Event, Firing
from triggers.prewarm import PREWARM, PrewarmTrigger
from triggers.table import Table


def forecast_of(name: str) -> Forecast:
    """The forecast that the setting ``prewarm`` names; ``off`` forecasts, too, for idle tiers."""
    return WindowForecast() if name == "window" else QuantileForecast()


class Prewarming(Concern[Run]):
    """Feeds the forecast, and sets the time at which actors are to be restored.

    An update begins when the learner is handed its first invocation since the last version, or
    with that version if one was waiting already. It ends with the next version.
    """

    def __init__(self, run: Run, table: Table) -> None:
        super().__init__(run)
        parts = table[PREWARM].parts() if PREWARM in table else ()
        self._triggers = [part for part in parts if isinstance(part, PrewarmTrigger)]
        self.forecast = forecast_of(run.plan.elastic.prewarm)
        self._began: float | None = None
        self._restores: list[float] = []
        self._versions, self._actors = 0, len(run.actors)

    def fire(self, firing: Firing) -> None:
        """The next version is near: have actors that wait as images restored."""
        run = self.run
        members = (Member(ACTORS, a) for a in run.actors)
        idle = [m for m in members if run.ending.samples and run.invocations.last(m) is None]
        for member in idle:
            if member not in run.roster.down:
                run.ports.processes.prepare(member)
        if not idle:
            run.ports.journal.take_back(firing.number)

    def invoked(self, member: Member, call: Invoke) -> None:
        """The learner whose versions actors wait for was handed an invocation."""
        if member == self.run.first.member and self._began is None:
            self._begin()

    def _begin(self) -> None:
        self._began = now = self.run.ports.clock.now()
        self.forecast.restored(self._restores)
        self._restores.clear()
        if (at := self.forecast.when) is not None:
            for trigger in self._triggers:
                trigger.began(now, at)

    def happened(self, event: Event) -> None:
        """New versions came; the learner may have further invocations already."""
        if not self.run.is_version(event):
            return
        self._versions += 1
        if event.version < self.run.published:
            return  # of several at once the newest ends the update
        if self._began is not None:
            seconds = self.run.ports.clock.now() - self._began
            self.forecast.learned(seconds / self._versions)
        self._began, self._versions = None, 0
        before, self._actors = self._actors, len(self.run.actors)
        if self._actors != before:
            self.forecast.rescaled(before, self._actors)
        self.run.idle = self.forecast.update or 0.0
        for trigger in self._triggers:
            trigger.ended()
        if event.ahead:
            self._begin()

    def answered(self, member: Member, call: Invoke, done: Done) -> Mapping[str, Any]:
        """An actor may have been restored from an image for its invocation."""
        if done.restored:
            self._restores.append(done.restored)
        return NOTHING

    def __repr__(self) -> str:
        return f"<Prewarming by {self.forecast!r}>"
