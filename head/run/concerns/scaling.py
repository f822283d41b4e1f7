"""How many actors take part, by schedule, policy or hand."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any

import msgspec

from artos.runs.plan import Plan
from artos.scaling.faults import CannotScale, ScalingFailed
from artos.scaling.policy import Custom, Observation, ScalingPolicy, decided
from artos.specs.actor_count import Kept, Schedule
from artos.specs.members import ACTORS, Member
from head.run.coordination.concern import Concern
from head.run.run import Run
from triggers.events import Event, Joined, Left
from triggers.pacing import fewest
from triggers.table import Table

LEAD = 16
"""Updates before a scheduled step up at which its actors begin to be made."""

_UNHURRIED = 3600.0  # seconds until they are wanted, while nobody knows how long an update takes


class Scaler:
    """The number of actors from update to update, as the plan's ``scaling`` has it.

    Updates are counted from 0. The number for an update holds for the round that it learns from.
    ``policy`` is the user's own if the plan names one, ``kept`` comes from the run's checkpoint.
    """

    def __init__(
        self, plan: Plan, policy: ScalingPolicy | None = None, kept: Kept | None = None
    ) -> None:
        scaling = self._scaling = plan.at_work
        self._rows = plan.envs * plan.steps
        self._policy = scaling if isinstance(scaling, ScalingPolicy) else policy
        assert self._policy is not None or not isinstance(scaling, Custom)
        same = kept is not None and kept.scaling == scaling
        self.kept = kept if kept is not None and same else Kept(scaling, scaling.first)

    @property
    def exact(self) -> bool:
        """Whether a number has to hold from its update on, rather than as soon as possible."""
        return self.kept.by_hand is None and isinstance(self._scaling, Schedule)

    def set(self, actors: int) -> None:
        """From now on the number is ``actors``, whatever plan and metrics say."""
        self.kept = msgspec.structs.replace(self.kept, by_hand=actors)

    def at(
        self,
        update: int,
        metrics: Mapping[str, float],
        mean_return: float | None,
        objects: Mapping[str, Any] = MappingProxyType({}),
    ) -> int:
        """The number for an update, given the metrics and objects of the last one; call in order.

        Raises:
            ScalingFailed: the policy raised, or its answer is invalid.
        """
        kept = self.kept
        if kept.by_hand is not None:
            return kept.by_hand
        if isinstance(self._scaling, Schedule):
            return self._scaling.at(update)
        if self._policy is not None and update > kept.update:
            seen = Observation(update, kept.actors, self._rows, metrics, mean_return, objects)
            memory = deepcopy(kept.memory)  # if the policy fails, ``kept`` can still be saved
            try:
                actors = decided(self._policy, seen, memory)
            except Exception as error:
                trace = "".join(traceback.format_exception(error))
                raise ScalingFailed(type(self._policy).__name__, update, trace) from error
            self.kept = msgspec.structs.replace(kept, actors=actors, update=update, memory=memory)
        return self.kept.actors

    def ahead(self, update: int) -> int | None:
        """The number for the update after this one; None if it is not known yet."""
        return self._scheduled(update + 1)

    def rise(self, update: int) -> tuple[int, int] | None:
        """The next number, if it is larger, and how many updates from now it holds.

        None if the number falls before that, or nothing larger is known for ``LEAD`` updates.
        """
        for updates in range(1, LEAD + 1):
            if (number := self._scheduled(update + updates)) is None:
                return None
            if number != (now := self._scheduled(update)):
                return (number, updates) if now is not None and number > now else None
        return None

    def _scheduled(self, update: int) -> int | None:
        if self.kept.by_hand is not None or not isinstance(self._scaling, Schedule):
            return None
        return self._scaling.at(update)


class Scaling(Concern[Run]):
    """Lets actors join and leave: 0 to ``len(run.actors)`` - 1 take part, more may be prepared."""

    def __init__(self, run: Run, table: Table, scaler: Scaler) -> None:
        super().__init__(run)
        self.scaler, self._fewest = scaler, fewest(table)
        run.actors = range(scaler.at(run.first_version, {}, None))
        self._prepared = run.roster.prepared = len(run.actors)
        self._turned, self._update_seconds = (-1, 0.0), 0.0

    def begin(self) -> None:
        """A run that goes on from a snapshot has as many actors as it had."""
        self.run.roster.prepared = self._prepared

    def scale(self, actors: int) -> None:
        """Go on with so many actors from the next version on, new ones as soon as they are ready.

        Raises:
            CannotScale: more actors than are registered, or too few for a trigger.
        """
        least, most = self._fewest, self.run.plan.actors
        if actors > most:
            why = f"{most} are registered; a run can have so many that begins with --actors"
            raise CannotScale(actors, least, most, f"{why} {most}..{actors}")
        if actors < least:
            raise CannotScale(actors, least, most, f"its triggers wait for {least} at least")
        self.scaler.set(actors)
        now, before = len(self.run.actors), self._prepared
        self._prepare(max(now, actors))
        for actor in range(now, min(before, self._prepared)):
            self.run.roster.hurry(Member(ACTORS, actor), 0.0)

    def happened(self, event: Event) -> None:
        """Before triggers see a version, actors join and leave, so that its round is theirs."""
        if not (self.run.is_version(event) and self.run.plan.actors):
            return
        run, before = self.run, len(self.run.actors)
        monitor, objects = run.monitor, dict[str, Any]()
        for learner in run.learners.values():
            objects |= learner.objects.values()
        wanted = self.scaler.at(event.version, monitor.metrics, monitor.mean_return, objects)
        # Unless the number is ``exact``, actors join once they are ready.
        joins = not self.scaler.exact and wanted > before
        count = max(before, run.roster.first_missing(wanted)) if joins else wanted
        run.actors = range(count)
        self._prepare(*self._foreseen(event.version, wanted, before))
        for actor in range(count, before):
            run.feed(Left(actor, run.rounds.granted_to(actor)))
        for actor in range(before, count):
            run.held[actor] = -1
            # Actor 0 always takes part, so new actors begin with the round that it is at.
            run.feed(Joined(actor, 0, run.rounds.granted_to(0)))
        if count != before:
            run.ports.journal.scaled(run.ports.clock.now(), count, before, event.version)

    def _foreseen(self, update: int, wanted: int, before: int) -> tuple[int, float]:
        """How many actors to prepare, and in how many seconds those beyond the present are wanted.

        Actors are prepared as soon as it is known that they will be wanted, but those that were
        there before only an update ahead, as that takes little.
        """
        count, (last, then), now = len(self.run.actors), self._turned, self.run.ports.clock.now()
        if update > last >= 0:  # the last update had ``before`` actors
            self._update_seconds = (now - then) / (update - last) * count / before
        self._turned = update, now
        if (rise := self.scaler.rise(update)) is None:
            return wanted, 0.0
        number, updates = rise
        others = (Member(ACTORS, a) for a in range(self._prepared, number))
        if updates > 1 and (count < before or any(map(self.run.roster.is_ready, others))):
            return wanted, 0.0
        unhurried = _UNHURRIED if updates > 1 else 0.0
        seconds = self._update_seconds
        return max(wanted, number), updates * seconds if seconds else unhurried

    def _prepare(self, count: int, within: float = 0.0) -> None:
        run, before, now = self.run, self._prepared, len(self.run.actors)
        self._prepared = run.roster.prepared = count
        for actor in range(count, before):
            run.ports.processes.retire(Member(ACTORS, actor))
        for actor in range(before, count):
            run.roster.started(Member(ACTORS, actor), within)
            run.ports.processes.prepare(Member(ACTORS, actor), within)
        for actor in range(now, min(before, count) if within else 0):
            run.roster.hurry(Member(ACTORS, actor), within)

    def __repr__(self) -> str:
        return f"<Scaling {len(self.run.actors)} actors, {self._prepared} prepared>"
