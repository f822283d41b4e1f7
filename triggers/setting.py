"""A trigger that sets what ``artos set`` sets, and what may be set at all."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from artos.runs.plan import Plan
from artos.specs.configuration import MAX_LAG, Changeable, Configuration, faults
from artos.specs.members import ENV, SET
from triggers.base import Trigger
from triggers.events import Event, Firing, Published
from triggers.pacing import (
    bounded,
    hands_over_episodes,
    in_step,
    is_of_some,
    lag_of,
    lead,
    paced,
    rows_ahead,
)  # fmt: skip
from triggers.targets import parsed

if TYPE_CHECKING:
    from triggers.table import Table


@dataclass
class SetTrigger(Trigger):
    """Sets what its target names, ``"set.env.difficulty"``, when the trigger ``when`` fires.

    ``set`` is the value, or the values one after the other: with each firing the one that follows
    the present value. If that is none of them it is the first, unless somebody has set another:
    that stays. So it needs no memory, and a resumed run goes on where it was.
    """

    when: Trigger
    set: float | tuple[float, ...]
    sets: tuple[float, ...] = field(init=False, repr=False, compare=False, default=())

    def __post_init__(self) -> None:
        self.sets = tuple(self.set) if isinstance(self.set, tuple | list) else (self.set,)

    def check(self, event: Event, now: float) -> Firing | None:
        """As its condition, but for versions that the run goes on from: nothing was learned."""
        if isinstance(event, Published) and event.again:
            self.when.overlook(event, now)
            return None
        return self.when.check(event, now)

    def due(self) -> float | None:
        """When its condition is."""
        return self.when.due()

    def words(self) -> str:
        """Its condition, and its values."""
        values = ", then ".join(f"{value:g}" for value in self.sets)
        return f"{self.when.words()}: sets {values}"

    def faults(self, plan: Plan) -> Iterator[str]:
        """Values that are no numbers or come twice, and a condition that hands over rows."""
        if not self.sets:
            yield "sets nothing: give set=VALUE, or set=(VALUE, VALUE) one after the other"
        for value in self.sets:
            if not (isinstance(value, int | float) and math.isfinite(value)):
                yield f"set must be a finite number or several, not {value!r}"
        if len({*self.sets}) < len(self.sets):
            yield f"set={self.sets} has a value twice, so what follows it is unknown: leave one out"
        if any(part.demand or part.draw or part.sets for part in self.when.parts()):
            yield f"{self.when.name} does more than say when: let a trigger that claims nothing"

    def misfit(self, target: str) -> str:
        """It sets, and fires nobody."""
        if parsed(target).role == SET:
            return ""
        return (
            f'a SetTrigger fires nobody: let its row be called "{SET}.NAME", as "{SET}.env.level"'
        )

    def objects_read(self) -> tuple[str, ...]:
        """Those of its condition."""
        return self.when.objects_read()

    def parts(self) -> tuple[Trigger, ...]:
        """Itself and the primitives of its condition."""
        return (self, *self.when.parts())


def following(values: tuple[float, ...], present: float | None) -> float | None:
    """The value to be set after the present one; None if there is none, or that is to stay.

    ``present`` is None where nothing has been set yet.
    """
    if present is None:
        return values[0]
    after = values.index(present) + 1 if present in values else len(values)
    return values[after] if after < len(values) else None


def settable(plan: Plan, table: Table) -> dict[str, Changeable]:
    """What may be set while a run goes, by the names that users know."""
    found = {f"{name}.{c.name}": c for name in plan.learners for c in plan.of(name).changeable}
    found |= {f"{ENV}.{each.name}": each for each in plan.settable}
    lag = Changeable(MAX_LAG, ge=0, kind="int")
    return found | dict.fromkeys(lag_settings(plan, table), lag)


def lag_settings(plan: Plan, table: Table) -> dict[str, str]:
    """The learners whose rows may not be older than some number of versions, by its setting."""
    return {plan.lag_setting(name): name for name in bounded(plan, table)}


def lags_set(plan: Plan, configuration: Configuration) -> dict[str, int]:
    """How many versions old rows may be, by learner, where that was changed."""
    names = {plan.lag_setting(name): name for name in plan.learners}
    found = configuration.settings.items()
    return {names[each]: int(value) for each, value in found if each in names}


def setting_faults(plan: Plan, table: Table, settings: Mapping[str, float]) -> list[str]:
    """What is wrong with settings for a run of this table, which stays as it is."""
    if found := [*faults(settings, settable(plan, table))]:
        return found
    most = lags_set(plan, Configuration(settings={**settings}))
    return _lag_faults(plan, table, most) if most else []


def _lag_faults(plan: Plan, table: Table, most: Mapping[str, int]) -> list[str]:
    """Whether a run could go on with another ``max_lag`` of these learners."""
    from triggers.verify import verifier  # noqa: PLC0415  # which asks for what may be set, too

    acting = {target: each for target, each in deepcopy(table).items() if not each.sets}
    bound(acting, most)
    stuck = [
        part.name
        for target, trigger in acting.items()
        for part in trigger.parts()
        if lag_of(part) not in (None, most.get(parsed(target).role, lag_of(part)))
    ]
    if stuck:
        return [f"{each} keeps its max_lag: let it override bound(max_lag, lead)" for each in stuck]
    if found := verifier.faults(plan, acting):
        return found
    lowered = [f for of, lag in most.items() for f in lowering_faults(plan, table, of, (lag,))]
    if lowered:
        return lowered
    if (ahead := lead(acting)) > lead(table) and not hands_over_episodes(table):
        needed = rows_ahead(plan, acting, ahead)
        return [_NO_ROOM.format(ahead, needed, plan.capacity)] if needed > plan.capacity else []
    return []


def lowering_faults(plan: Plan, table: Table, learner: str, values: Sequence[float]) -> list[str]:
    """Why a ``max_lag`` cannot have these values one after the other, in a run that goes on."""
    own = {target: trigger for target, trigger in table.items() if parsed(target).role == learner}
    lowest = next((b for a, b in pairwise((lead(own), *values)) if b < a), None)
    if lowest is None or _can_wait(plan, table, learner):
        return []
    return [_GIVEN_UP.format(int(lowest), plan.lag_setting(learner))]


def _can_wait(plan: Plan, table: Table, learner: str) -> bool:
    """Whether rows that were granted before are used before ``max_lag`` is lower.

    Else they might be given up while no other round is granted before the next version. Actors
    that keep their weights (``actors.sync``) sample rows that are older than their round.
    """
    part, keeps = paced(plan, table), "actors.sync" in table
    some = part is not None and part.demand is not None and is_of_some(plan, part.demand)
    some = some and learner == plan.learner
    sampling = [p for target, t in table.items() if parsed(target).samples for p in t.parts()]
    asked = any(each.cadence is None for each in sampling)
    return asked or (not keeps and (some or in_step(plan, table)))


_GIVEN_UP = (
    "{1}={0} might have rows given up that the next version is to be made of, for which all "
    "would wait: end the run and have it go on with --set max_lag={0}"
)
_NO_ROOM = (
    "max_lag={0} lets actors be {0} rounds ahead, for which each needs a block of {1} rows, and it "
    "has {2}: end the run and have it go on with --set max_lag={0}. Blocks have room for the "
    "max_lag that a run begins with, and it can be lowered at once"
)


def bound(
    table: Mapping[str, Trigger], most: Mapping[str, int], granted: Container[str] = ()
) -> dict[str, int]:
    """Bound the lag of the rows of these learners, where it is bounded; returns their lags so far.

    Rows of the ``granted`` may have been granted under the present bounds, and may be needed: these
    still hold for them where they are larger.
    """
    before, ahead = dict.fromkeys(most, 0), lead(table, most)
    for target, trigger in table.items():
        learner = parsed(target).role
        if parsed(target).learns and learner not in most:
            continue
        for part in trigger.parts():
            now, max_lag = lag_of(part) or 0, most.get(learner, ahead)
            part.bound(max(now, max_lag) if learner in granted else max_lag, max_lag)
            if learner in before:
                before[learner] = max(before[learner], now)
    return before
