"""The workload monitor: what a run did so far, as numbers (checklist C4, A36b; table row 40)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
        self.add(lags.size, int(lags.sum()), largest)
        return mean, largest

    def add(self, rows: int, total: int, largest: int) -> None:
        """Count rows of which the sum and the maximum of their lags are known."""
        self.rows += rows
        self.total += total
        self.largest = max(self.largest, largest)

    @property
    def mean(self) -> float:
        """Mean over everything counted so far."""
        return self.total / self.rows if self.rows else 0.0


class Monitor:
    """Counts and sums of a run. Fed by the coordinator, read by the view and the records.

    Policy lag is measured at both honest points (checklist C4): ``lag`` of rows at consumption,
    of all and of each actor's, ``round_lag`` of the actors' weights at the end of a round, after
    the update and the pull.
    ``actors_by_update`` says for each version made how many actors took part until then.
    """

    def __init__(self, window: int = 100) -> None:
        self.returns: deque[float] = deque(maxlen=window)
        self.episodes = 0
        self.updates = 0
        self.restarts = 0
        self.rows_lost = 0
        self.lag = LagMeter()
        self.lag_of: dict[int, LagMeter] = {}
        self.round_lag = LagMeter()
        self.actors_by_update: list[int] = []
        self.metrics: dict[str, float] = {}
        self.times: dict[str, float] = {}
        self.first_step: float | None = None
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

    def stepped(self, began: float) -> None:
        """Environments were stepped from that time (seconds of the run's clock) on."""
        self.first_step = began if self.first_step is None else self.first_step

    def helped(self, times: Mapping[str, float]) -> None:
        """The learner finished an invocation that publishes nothing."""
        self._spend("learner", times)

    def learned(self, metrics: Mapping[str, float], times: Mapping[str, float]) -> None:
        """The learner finished an update."""
        self.updates += 1
        self.metrics = dict(metrics)
        self._spend("learner", times)

    def consumed(
        self, blocks: Mapping[int, ActorBlock], claims: Sequence[Claim], version: int
    ) -> dict[str, Any]:
        """The learner, at ``version``, took these rows: their lags as the journal has them.

        ``lags`` are ``(actor, mean, maximum)`` of each claim.
        """
        if not claims:
            return {}
        found = lags(blocks, claims, version)
        mean, largest = self.lag.consume(found)
        each = found.reshape(len(claims), -1)
        rows = each.shape[1]
        told = []
        for claim, total, most in zip(
            claims, each.sum(1).tolist(), each.max(1).tolist(), strict=True
        ):
            self.lag_of.setdefault(claim.actor, LagMeter()).add(rows, total, most)
            told.append((claim.actor, round(total / rows, 4), most))
        return {"lag_mean": round(mean, 4), "lag_max": largest, "lags": told}

    def lag_by_actor(self) -> dict[int, dict[str, float]]:
        """Mean and maximum (``max``) of the lags of each actor's rows that were consumed."""
        return {
            actor: {"mean": round(meter.mean, 4), "max": meter.largest}
            for actor, meter in sorted(self.lag_of.items())
        }

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
