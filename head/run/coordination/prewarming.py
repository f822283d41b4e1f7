"""Has parked actors back when the next version comes: feeds the forecast, sets the trigger."""

from __future__ import annotations

from artos.clock import Clock
from artos.protocol.invocations import Done
from head.run.coordination.forecast import Forecast, QuantileForecast, WindowForecast
from triggers.prewarm import PREWARM, PrewarmTrigger
from triggers.table import Table


def forecast_of(name: str) -> Forecast:
    """The forecast that the setting ``prewarm`` names; ``off`` forecasts, too, for idle tiers."""
    return WindowForecast() if name == "window" else QuantileForecast()


class Prewarming:
    """Follows one workload's updates, and sets the time at which its actors are to be restored.

    An update begins when the learner is handed its first invocation since the last version, or
    with that version if one was waiting already. It ends with the next version.
    """

    def __init__(self, table: Table, forecast: Forecast, clock: Clock) -> None:
        parts = table[PREWARM].parts() if PREWARM in table else ()
        self._triggers = [part for part in parts if isinstance(part, PrewarmTrigger)]
        self.forecast, self._clock = forecast, clock
        self._began: float | None = None
        self._restores: list[float] = []
        self.idle = 0.0

    def called(self) -> None:
        """The learner was handed an invocation."""
        if self._began is not None:
            return
        self._began = now = self._clock.now()
        self.forecast.restored(self._restores)
        self._restores.clear()
        at = self.forecast.when
        if at is not None:
            for trigger in self._triggers:
                trigger.began(now, at)

    def published(self, versions: int, *, more: bool) -> None:
        """New versions came; ``more``: the learner has further invocations."""
        if self._began is not None:
            self.forecast.learned((self._clock.now() - self._began) / versions)
            self.idle = self.forecast.update or 0.0
        self._began = None
        for trigger in self._triggers:
            trigger.ended()
        if more:
            self.called()

    def answered(self, done: Done) -> None:
        """An actor carried out an invocation."""
        if done.restored:
            self._restores.append(done.restored)

    def rescaled(self, before: int, after: int) -> None:
        """From now on ``after`` actors take part instead of ``before``."""
        self.forecast.rescaled(before, after)
        self.idle = self.forecast.update or 0.0

    def __repr__(self) -> str:
        return f"<Prewarming by {self.forecast!r}>"
