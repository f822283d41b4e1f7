"""The workload monitor: the counts and means of a run so far."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from artos.buffer.actor_block import ActorBlock
from artos.protocol.invocations import ALL, ActorLag, Claim
from artos.protocol.lag import added, class_name, measure
from artos.specs.keys import VERSION_KEY
from artos.specs.members import Member
from head.records.episodes import Ended
from head.run.times import Times


def lags_of_claims(
    blocks: Mapping[int, ActorBlock],
    claims: Iterable[Claim],
    version: int,
    envs: int,
    key: str = VERSION_KEY,
) -> list[ActorLag]:
    """How many versions older than ``version`` the rows of each claim are, none below 0.

    Rows are counted as environment steps, ``envs`` each if they are not of a single one; ``key`` is
    the data key that holds their versions.
    """
    lags: list[ActorLag] = []
    for claim in claims:
        versions = np.concatenate(blocks[claim.actor].views(key, claim.start, claim.stop))
        times = envs if claim.env == ALL else 1
        lags.append(measure(claim.actor, (version - versions).clip(min=0), times))
    return lags


class LagMeter:
    """Policy lag: the learner's version minus the version of rows or actors."""

    def __init__(self) -> None:
        self.rows = self.total = self._largest = 0
        self.classes: tuple[int, ...] = ()

    def add(self, lag: ActorLag) -> None:
        """Count the lags of some rows."""
        self.rows += lag.rows
        self.total += lag.total
        self._largest = max(self._largest, lag.largest)
        self.classes = added(self.classes, lag.classes)

    @property
    def mean(self) -> float | None:
        """Mean over everything counted so far, None before anything was counted."""
        return self.total / self.rows if self.rows else None

    @property
    def largest(self) -> int | None:
        """The largest so far, None before anything was counted."""
        return self._largest if self.rows else None

    @property
    def histogram(self) -> dict[str, int]:
        """Rows by lag, in classes that double: ``{"0": 512, "1": 40, "2-3": 8}``."""
        return {class_name(number): rows for number, rows in enumerate(self.classes) if rows}

    def facts(self) -> dict[str, Any]:
        """Mean and maximum as records have them, None if nothing was counted."""
        return {"mean": None if self.mean is None else round(self.mean, 4), "max": self.largest}


class Beside:
    """What is counted of a learner beside the first."""

    def __init__(self) -> None:
        self.lag, self.metrics = LagMeter(), dict[str, float]()

    def learned_from(self, lags: Sequence[ActorLag]) -> dict[str, Any]:
        """An update learned from rows that its own policy made, too; returns their lags."""
        update = LagMeter()
        for lag in lags:
            update.add(lag)
            self.lag.add(lag)
        found = update.facts()
        return {"lag_mean": found["mean"], "lag_max": found["max"]} if lags else {}


@dataclass
class DeviceUse:
    """What became of the device of a learner."""

    name: str = ""
    """Its name in the pool, if it is leased."""
    lost: int = 0
    """Updates during which it was taken from the learner."""
    idle: float = 0.0
    """Seconds of updates in which that GPU computed nothing, by its driver."""


class Monitor:
    """Counts and sums of a run. Fed by the coordinator, read by the view and the records.

    Policy lag is measured at two points: when rows are learned from, and at the end of a round.
    """

    def __init__(self, window: int = 100) -> None:
        self.returns: deque[float] = deque(maxlen=window)
        self.returns_of: defaultdict[str, deque[float]] = defaultdict(partial(deque, maxlen=window))
        """The same of each agent of a game, by its name."""
        self.episodes = self.unlisted = 0
        """All that ended; those of them of which no more is known than that they did."""
        self.restarts = 0
        self.rows_lost = 0
        self.rows_drawn = 0
        """Rows that samplers handed to the learner."""
        self.rows_stale = 0
        """Rows that ``max_lag`` left out of samples, or that were given up as too old."""
        self.empty_draws = 0
        """Draws that found no row."""
        self.firings_skipped: dict[str, int] = {}
        """By target, firings that came faster than the learner works."""
        self.devices: defaultdict[str, DeviceUse] = defaultdict(DeviceUse)
        """By learner."""
        self.lag = LagMeter()
        """The lag of the rows learned from, whether handed over or drawn."""
        self.lag_of: dict[int, LagMeter] = {}
        """The same by actor."""
        self.round_lag = LagMeter()
        """The lag of the actors' weights at the end of a round, after the update and the pull."""
        self.actors_by_update: list[tuple[int, int]] = []
        """``(updates, actors)``: for so many updates in a row, so many actors took part."""
        self.metrics: dict[str, float] = {}
        self.beside: defaultdict[str, Beside] = defaultdict(Beside)
        """By learner; ``lag`` and ``metrics`` are those of the first one."""
        self.times = Times()
        self.first_step: float | None = None
        self.goes_on = False
        """Whether times and devices are those of earlier parts of the run, too."""
        self.finished: list[Ended] = []
        """Episodes that are not in the records yet."""

    @property
    def mean_return(self) -> float | None:
        """Mean return of the last ``window`` episodes, None before the first."""
        return sum(self.returns) / len(self.returns) if self.returns else None

    def sampled(
        self,
        member: Member,
        returns: Iterable[float],
        lengths: Iterable[int],
        times: Mapping[str, float],
        steps: int,
        agents: Iterable[str] = (),
        untold: int = 0,
    ) -> None:
        """An actor finished a round, when the run had made ``steps`` environment steps.

        ``agents`` are those of its game that the episodes were of, if it plays one; ``untold`` more
        episodes ended, of which only that is known.
        """
        self.episodes += untold
        self.unlisted += untold
        ended = [*zip(returns, lengths, strict=True)]
        for (value, length), agent in zip(ended, agents or [""] * len(ended), strict=True):
            self.returns.append(value)
            if agent:
                self.returns_of[agent].append(value)
            self.episodes += 1
            self.finished.append(Ended(steps, value, length, agent))
        self.times.spend(member, times)

    def stepped(self, began: float) -> None:
        """Environments were stepped from the time ``began`` on (seconds of the run's clock)."""
        self.first_step = began if self.first_step is None else self.first_step

    def skipped(self, target: str) -> int:
        """A firing for which the learner had no time; returns how many its target has had."""
        self.firings_skipped[target] = self.firings_skipped.get(target, 0) + 1
        return self.firings_skipped[target]

    def helped(self, member: Member, times: Mapping[str, float]) -> None:
        """The learner finished an invocation that publishes nothing."""
        self.times.spend(member, times)

    def learned(
        self, member: Member, metrics: Mapping[str, float], times: Mapping[str, float]
    ) -> None:
        """The learner finished an update."""
        self.metrics = dict(metrics)
        self.times.spend(member, times)

    def learned_from(
        self, handed: Sequence[ActorLag], drawn: Sequence[ActorLag] = ()
    ) -> dict[str, Any]:
        """An update learned from rows handed to it or drawn; returns lags as in the journal.

        ``lags`` are ``(actor, mean, maximum)`` of each claim, or of the rows drawn of each actor.
        """
        lags = (*handed, *drawn)
        if not lags:
            return {}
        self.rows_drawn += sum(lag.rows for lag in drawn)
        update = LagMeter()
        for lag in lags:
            for meter in (update, self.lag, self.lag_of.setdefault(lag.actor, LagMeter())):
                meter.add(lag)
        told = [(lag.actor, round(lag.total / lag.rows, 4), lag.largest) for lag in lags]
        found = update.facts()
        return {"lag_mean": found["mean"], "lag_max": found["max"], "lags": told}

    def lag_by_actor(self, *, spread: bool = False) -> dict[int, dict[str, Any]]:
        """Mean and maximum (``max``) of the lags of each actor's rows that were learned from.

        With ``spread`` also the number of these ``rows`` and the ``histogram`` of their lags.
        """
        return {
            actor: meter.facts()
            | ({"rows": meter.rows, "histogram": meter.histogram} if spread else {})
            for actor, meter in sorted(self.lag_of.items())
        }

    def round_ended(self, version: int, bound: Iterable[int]) -> None:
        """The learner made ``version``; count the lags of the versions that actors now hold."""
        lags = version - np.fromiter(bound, np.int64)
        self.round_lag.add(measure(0, lags.clip(min=0)))

    def took_part(self, actors: int) -> None:
        """So many actors sampled for the newest version."""
        runs = self.actors_by_update
        if runs and runs[-1][1] == actors:
            runs[-1] = (runs[-1][0] + 1, actors)
        else:
            runs.append((1, actors))

    @property
    def mean_returns(self) -> dict[str, float]:
        """Mean return of the last ``window`` episodes of each agent of a game."""
        return {name: sum(last) / len(last) for name, last in sorted(self.returns_of.items())}
