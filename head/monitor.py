"""The workload monitor: what a run did so far, as numbers (checklist C4, A36b; table row 40)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from artos.buffer.actor_block import ActorBlock
from artos.messages import Claim
from artos.spec import VERSION_KEY


def lags(
    blocks: Mapping[int, ActorBlock], claims: Iterable[Claim], version: int
) -> NDArray[np.int64]:
    """How many versions older than ``version`` each claimed row is, (rows,) int64, none below 0."""
    rows = [v for c in claims for v in blocks[c.actor].views(VERSION_KEY, c.start, c.stop)]
    return np.asarray(version - np.concatenate(rows), np.int64).clip(min=0)


class LagMeter:
    """Policy lag: the learner's version minus the version that rows or actors have (C4)."""

    def __init__(self) -> None:
        self.rows, self.total, self.largest = 0, 0, 0

    def consume(self, lags: NDArray[np.int64]) -> tuple[float, int]:
        """Count the lags of one measurement (versions); returns their mean and maximum."""
        mean, largest = float(lags.mean()), int(lags.max())
        self.rows += lags.size
        self.total += int(lags.sum())
        self.largest = max(self.largest, largest)
        return mean, largest

    @property
    def mean(self) -> float:
        """Mean over everything counted so far."""
        return self.total / self.rows if self.rows else 0.0


class Monitor:
    """Counts and sums of a run. Fed by the coordinator, read by the view and the records.

    Policy lag is measured at both honest points (checklist C4): ``lag`` of rows at consumption,
    ``round_lag`` of the actors' weights at the end of a round, after the update and the pull.
    ``actors_by_update`` says for each version made how many actors took part until then.
    """

    def __init__(self, window: int = 100) -> None:
        self.returns: deque[float] = deque(maxlen=window)
        self.episodes = 0
        self.updates = 0
        self.restarts = 0
        self.rows_lost = 0
        self.lag = LagMeter()
        self.round_lag = LagMeter()
        self.actors_by_update: list[int] = []
        self.metrics: dict[str, float] = {}
        self.times: dict[str, float] = {}
        self._finished: list[tuple[int, float, int]] = []

    @property
    def mean_return(self) -> float | None:
        """Mean return of the last ``window`` episodes, None before the first."""
        return sum(self.returns) / len(self.returns) if self.returns else None

    def sampled(
        self,
        returns: Iterable[float],
        lengths: Iterable[int],
        times: Mapping[str, float],
        steps: int,
    ) -> None:
        """An actor finished a round, when the run had made ``steps`` environment steps."""
        for value, length in zip(returns, lengths, strict=True):
            self.returns.append(value)
            self.episodes += 1
            self._finished.append((steps, value, length))
        self._spend("actors", times)

    def helped(self, times: Mapping[str, float]) -> None:
        """The learner finished an invocation that publishes nothing."""
        self._spend("learner", times)

    def learned(self, metrics: Mapping[str, float], times: Mapping[str, float]) -> None:
        """The learner finished an update."""
        self.updates += 1
        self.metrics = dict(metrics)
        self._spend("learner", times)

    def round_ended(self, version: int, bound: Iterable[int]) -> tuple[float, int]:
        """The learner minted ``version`` and actors pulled: count the lags of what they hold."""
        lags = version - np.fromiter(bound, np.int64)
        return self.round_lag.consume(lags.clip(min=0))

    def drain_episodes(self) -> list[tuple[int, float, int]]:
        """``(steps, return, length)`` of the episodes that ended since the last call."""
        drained, self._finished = self._finished, []
        return drained

    def _spend(self, who: str, times: Mapping[str, float]) -> None:
        for kind, seconds in times.items():
            name = f"{who}.{kind}" if kind == "wait" else kind
            self.times[name] = self.times.get(name, 0.0) + seconds
