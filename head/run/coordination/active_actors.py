"""How many actors take part (by schedule, policy or hand), which ones, and which are ready."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any, ClassVar

import msgspec

from artos.buffer.mailbox import LEARNER, actor_member
from artos.clock import Clock
from artos.plan import Plan
from artos.scaling.actor_count import Kept, Schedule
from artos.scaling.faults import CannotScale, ScalingFailed
from artos.scaling.policy import Custom, Observation, ScalingPolicy, decided
from head.run.coordination.ports import Members

LEAD = 16
"""Updates before a scheduled step up at which its actors begin to be made."""

_UNHURRIED = 3600.0  # seconds until they are wanted, while nobody knows how long an update takes


def check_number(actors: int, least: int, most: int) -> None:
    """Check that a run can go on with so many actors.

    Raises:
        CannotScale: more actors than are registered, or too few for a trigger.
    """
    if actors > most:
        raise CannotScale(actors, least, most, f"{most} are registered")
    if actors < least:
        raise CannotScale(actors, least, most, f"its triggers wait for {least} at least")


class Scaler:
    """The number of actors from update to update, as the plan's ``scaling`` has it.

    Updates are counted from 0. The number for an update holds for the round that it learns from.
    ``policy`` is the user's own if the plan names one, ``kept`` is from the run's checkpoint.
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
            self.kept = self._asked(self._policy, seen)
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

    def _asked(self, policy: ScalingPolicy, seen: Observation) -> Kept:
        memory = deepcopy(self.kept.memory)  # if the policy fails, ``kept`` can still be saved
        try:
            actors = decided(policy, seen, memory)
        except Exception as error:
            trace = "".join(traceback.format_exception(error))
            raise ScalingFailed(type(policy).__name__, seen.update, trace) from error
        return msgspec.structs.replace(self.kept, actors=actors, update=seen.update, memory=memory)


class ActiveActors:
    """The learner and the actors: actors 0 to ``count`` - 1 take part, a few more may be prepared.

    A member is ready once it has reported so since it was last started, parked or not. ``update``
    is the workload's current update (counted from 0; a resumed run begins with a later one).
    """

    kept: ClassVar[tuple[str, ...]] = ("count", "_prepared")

    def __init__(self, members: Members, clock: Clock, scaler: Scaler, update: int = 0) -> None:
        self._members, self._clock, self._scaler = members, clock, scaler
        self.count = self._prepared = scaler.at(update, {}, None)
        self._started: dict[int, float] = {}
        self._wanted: dict[int, float] = {}
        self._ready: set[int] = set()
        self._turned, self._update_seconds = (-1, 0.0), 0.0

    @property
    def actors(self) -> range:
        """The actors that take part."""
        return range(self.count)

    @property
    def all_ready(self) -> bool:
        """Whether the learner and the actors that take part are ready."""
        return LEARNER in self._ready and self._first_missing(self.count) == self.count

    def begin(self) -> None:
        """The learner and the first actors are being started."""
        for member in (LEARNER, *map(actor_member, self.actors)):
            self.started(member)

    # -- which members are ready ---------------------------------------------------------------

    def is_ready(self, member: int) -> bool:
        """Whether the member has reported that it is set up."""
        return member in self._ready

    def needs(self, member: int) -> bool:
        """Whether the member takes part or is prepared to take part."""
        return member == LEARNER or member <= self._prepared

    def started(self, member: int, within: float = 0.0) -> None:
        """The member is being started, to be ready in so many seconds or as soon as it can be."""
        now = self._clock.now()
        self._started[member], self._wanted[member] = now, now + within

    def ready(self, member: int) -> float | None:
        """The member reported that it is set up; returns the seconds since it was started.

        None if it was ready before: its process manager has restarted it without being asked.
        """
        if member in self._ready:
            return None
        self._ready.add(member)
        now = self._clock.now()
        return now - self._started.get(member, now)

    def lost(self, member: int) -> None:
        """The member is gone."""
        self._ready.discard(member)
        self._started.pop(member, None)
        self._wanted.pop(member, None)

    def late(self, seconds: float) -> Iterator[int]:
        """Members that should have been ready more than ``seconds`` ago and are not."""
        now = self._clock.now()
        for member, wanted in self._wanted.items():
            if member not in self._ready and now - wanted > seconds:
                yield member

    # -- how many take part --------------------------------------------------------------------

    def scale(self, actors: int) -> None:
        """By hand: the next updates are to reach this number."""
        self._scaler.set(actors)
        before = self._prepared
        self._prepare(max(self.count, actors))
        for actor in range(self.count, min(before, self._prepared)):
            self._expect(actor_member(actor), 0.0)

    def turn(
        self,
        update: int,
        metrics: Mapping[str, float],
        mean_return: float | None,
        objects: Mapping[str, Any],
    ) -> tuple[range, range]:
        """The workload comes to an update; returns the actors that join and those that leave.

        Actors are prepared as soon as it is known that they will be wanted, but those that were
        there before only an update ahead, as that takes little. Unless the number is ``exact``,
        they join once they are ready, so nothing waits for them.
        """
        wanted = self._scaler.at(update, metrics, mean_return, objects)
        before, self.count = self.count, self._reachable(wanted)
        self._prepare(*self._foreseen(update, wanted, before))
        return range(before, self.count), range(self.count, before)

    def _foreseen(self, update: int, wanted: int, before: int) -> tuple[int, float]:
        """How many actors to prepare, and in how many seconds those beyond ``count`` are wanted."""
        seconds = self._seconds_an_update(update, before)
        if (rise := self._scaler.rise(update)) is None:
            return wanted, 0.0
        number, updates = rise
        others = map(actor_member, range(self._prepared, number))
        if updates > 1 and (self.count < before or not self._ready.isdisjoint(others)):
            return wanted, 0.0
        unhurried = _UNHURRIED if updates > 1 else 0.0
        return max(wanted, number), updates * seconds if seconds else unhurried

    def _seconds_an_update(self, update: int, before: int) -> float:
        """From the last update, which had ``before`` actors; 0 if there was none."""
        (last, then), now = self._turned, self._clock.now()
        if update > last >= 0:
            self._update_seconds = (now - then) / (update - last) * self.count / before
        self._turned = update, now
        return self._update_seconds

    def _reachable(self, wanted: int) -> int:
        if self._scaler.exact or wanted <= self.count:
            return wanted
        return max(self.count, self._first_missing(wanted))

    def _first_missing(self, count: int) -> int:
        missing = (actor for actor in range(count) if actor_member(actor) not in self._ready)
        return next(missing, count)

    def _prepare(self, count: int, within: float = 0.0) -> None:
        before, self._prepared = self._prepared, count
        for actor in range(count, before):
            self._members.retire(actor_member(actor))
        for actor in range(before, count):
            self.started(actor_member(actor), within)
            self._members.prepare(actor_member(actor), within)
        for actor in range(self.count, min(before, count) if within else 0):
            self._expect(actor_member(actor), within)

    def _expect(self, member: int, within: float) -> None:
        """Tell a member that is being made how much time is left now."""
        if member not in self._ready and member in self._started:
            self._wanted[member] = self._clock.now() + within
            self._members.prepare(member, within)

    def __repr__(self) -> str:
        return f"<ActiveActors of {self.count} actors, {self._prepared} prepared>"
