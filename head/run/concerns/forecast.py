"""Forecasts when the learner's update will be over and parked actors must be back (paper §4.3).

Pure arithmetic over two sliding windows. ``Prewarming`` feeds them and acts on what follows.
"""

from __future__ import annotations

import math
import statistics
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Sequence

WINDOW = 5
"""Updates that the paper looks back at."""
EARLIEST = 0.05
"""Share of an update that passes before any actor is restored."""
STABLE = 0.2
"""The paper's λ: the range of updates' durations may be this share of their mean."""
_ENOUGH = 2


class Forecast(ABC):
    """What the last updates took, and what follows for the present one. All times are seconds."""

    def __init__(self, window: int) -> None:
        self.learner_fins: deque[float] = deque(maxlen=window)
        """For each update, how long the learner took from its beginning to the new version."""
        self.actor_starts: deque[float] = deque(maxlen=window)
        """How long actors took to be restored for these updates."""

    def learned(self, seconds: float) -> None:
        """The learner published a version, ``seconds`` after it began the update."""
        self.learner_fins.append(seconds)

    @abstractmethod
    def restored(self, seconds: Collection[float]) -> None:
        """The actors of one round were restored from images, each in so many seconds."""

    @abstractmethod
    def rescaled(self, before: int, after: int) -> None:
        """From now on ``after`` actors take part instead of ``before``."""

    @property
    @abstractmethod
    def update(self) -> float | None:
        """The least time that the present update is expected to take; None: not known."""

    @property
    @abstractmethod
    def prewarm(self) -> float | None:
        """How long after the beginning of an update to restore actors; None: not known.

        Negative if restoring takes longer than the update; see ``when``.
        """

    @property
    def when(self) -> float | None:
        """``prewarm``, but not before all actors of the round have answered and begun to park."""
        update, prewarm = self.update, self.prewarm
        return None if update is None or prewarm is None else max(prewarm, EARLIEST * update)


class WindowForecast(Forecast):
    """The paper's: windows of five updates, used while the updates are stable.

    Stable: Δ(learner_fins) < 0.2 · mean(learner_fins), where Δ is the range, of a full window. Then
    actors are restored at min(learner_fins) - max(actor_starts) - Δ_interval.

    Three things the paper leaves open, and how they are read here:

    - ``learner_fins``, "the latency until the learner finishes updating the policy model", may
      count from the moment when the learner is invoked, from the version before, or from the
      beginning of the run. Only a latency within the update has a mean to compare its range with,
      so the last is out. Counted from the version before it would contain the actors' round, and
      vary as rounds do. So it counts from the learner's invocation: that is the latest moment from
      which the rest of the way to the next version can be foreseen. The timer starts there, too.
    - ``actor_starts`` has one value for each update, the mean over the actors that were restored
      for it ("the average start-up overhead"). An update that needed no restore adds none.
    - Δ_interval, "the range of time intervals between each value in actor_starts and
      learner_fins", pairs the values by age, newest with newest: it is the range of
      learner_fins[i] - actor_starts[i]. The starts that are paired with an update are those of the
      invocations that it ended with, so both were measured beside the same load.
    """

    def __init__(self) -> None:
        super().__init__(WINDOW)

    def restored(self, seconds: Collection[float]) -> None:
        """The actors of one round were restored: their mean counts."""
        if seconds:
            self.actor_starts.append(statistics.fmean(seconds))

    def rescaled(self, before: int, after: int) -> None:
        """Nothing changes: in the paper old values stay until the window has moved on."""

    @property
    def stable(self) -> bool:
        """Whether the last updates took about the same time."""
        fins = self.learner_fins
        return len(fins) == WINDOW and _range(fins) < STABLE * statistics.fmean(fins)

    @property
    def update(self) -> float | None:
        """The shortest update in the window; None while updates are not stable."""
        return min(self.learner_fins) if self.stable else None

    @property
    def prewarm(self) -> float | None:
        """The paper's threshold; None while updates are not stable, or nothing was restored."""
        if not self.stable or not self.actor_starts:
            return None
        pairs = zip(reversed(self.learner_fins), reversed(self.actor_starts), strict=False)
        interval = _range([fin - start for fin, start in pairs])
        return min(self.learner_fins) - max(self.actor_starts) - interval


class QuantileForecast(Forecast):
    """Low quantile of updates, high quantile of restores, and some time to spare.

    Being early costs the memory of actors for a moment; being late costs every actor a wait. So it
    errs on the early side, the more so the more updates vary: it spares a share of the update, and
    half of what lies between the low quantile and the median. It is never without a forecast once
    two updates were seen: one slow update makes no quantile useless, as it makes a range.

    When the number of actors changes, the windows begin again. Until five updates of the new size
    were seen, an update may also be shorter in proportion to fewer actors, and a restore longer in
    proportion to more: neither changes by more than that.
    """

    _LOW, _HIGH = 0.05, 0.95
    _SPARE, _SPREAD = 0.05, 0.5

    def __init__(self, window: int = 20) -> None:
        super().__init__(window)
        self._shortest: float | None = None
        self._longest: float | None = None

    def restored(self, seconds: Collection[float]) -> None:
        """The actors of one round were restored: the slowest counts."""
        if seconds:
            self.actor_starts.append(max(seconds))

    def rescaled(self, before: int, after: int) -> None:
        """The windows begin again; the old values bound the new ones at first."""
        fin, start, factor = self._fin, self._start, after / before
        self._shortest = None if fin is None else fin * min(1.0, factor)
        self._longest = None if start is None else start * max(1.0, factor)
        self.learner_fins.clear()
        self.actor_starts.clear()

    @property
    def _fin(self) -> float | None:
        fins, bound = self.learner_fins, self._shortest
        if len(fins) < _ENOUGH:
            return bound
        low = quantile(fins, self._LOW)
        spared = low - self._SPREAD * (quantile(fins, 0.5) - low)
        return spared if bound is None or len(fins) >= WINDOW else min(bound, spared)

    @property
    def _start(self) -> float | None:
        starts, bound = self.actor_starts, self._longest
        if not starts:
            return bound
        high = quantile(starts, self._HIGH)
        return high if bound is None or len(starts) >= WINDOW else max(bound, high)

    @property
    def update(self) -> float | None:
        """The low quantile of updates, less the time to spare."""
        return None if self._fin is None else max(0.0, self._fin * (1 - self._SPARE))

    @property
    def prewarm(self) -> float | None:
        """So late that the slow actors are back when a short update ends."""
        update, start = self.update, self._start
        return None if update is None or start is None else update - start


def quantile(values: Collection[float], share: float) -> float:
    """The value that a ``share`` of the values reaches at most, between two of them if need be."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _range(values: Sequence[float] | deque[float]) -> float:
    return max(values) - min(values)
