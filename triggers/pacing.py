"""How far ahead of the learner actors may be, by what the triggers of a table claim and draw."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from triggers.base import Demand, Trigger
from triggers.targets import parsed
from triggers.window import Window

if TYPE_CHECKING:
    from artos.runs.plan import Plan


def parts_of(table: Mapping[str, Trigger]) -> Iterator[Trigger]:
    """All primitives of a table."""
    return (part for trigger in table.values() for part in trigger.parts())


def demands(table: Mapping[str, Trigger]) -> dict[str, list[Demand]]:
    """What the learner claims, by its targets."""
    found = {
        target: [part.demand for part in trigger.parts() if part.demand is not None]
        for target, trigger in table.items()
        if parsed(target).learns
    }
    return {target: claims for target, claims in found.items() if claims}


def hands_over_episodes(table: Mapping[str, Trigger]) -> bool:
    """Whether any trigger of the table claims whole episodes."""
    return any(trigger.hands_over_episodes for trigger in table.values())


def fewest(table: Mapping[str, Trigger]) -> int:
    """The smallest number of actors with which every trigger can still be satisfied."""
    return max((each.n or 1 for claims in demands(table).values() for each in claims), default=1)


def max_lags(table: Mapping[str, Trigger]) -> list[tuple[str, int, int]]:
    """Targets that bound the age of rows: target, rows per actor and update, most versions old."""
    claims = [(target, each) for target, found in demands(table).items() for each in found]
    return [
        (target, each.size, each.max_lag) for target, each in claims if each.max_lag is not None
    ]


def bounds_lag(trigger: Trigger) -> bool:
    """Whether it limits how old the rows are that it hands over or has drawn."""
    asks = (each for part in trigger.parts() for each in (part.demand, part.draw))
    return any(each is not None and each.max_lag is not None for each in asks)


def lag_of(part: Trigger) -> int | None:
    """Most versions that the rows it hands over may be old; None if nothing bounds that."""
    if part.demand is not None:
        return part.demand.max_lag
    return part.draw.max_lag if part.draw is not None else None


def lead(table: Mapping[str, Trigger]) -> int:
    """Rounds actors may be ahead of the learner: the tightest ``max_lag`` of the table.

    Without any ``max_lag`` sampling and learning alternate, as on-policy algorithms expect.
    """
    return min((versions for _, _, versions in max_lags(table)), default=0)


def rows_ahead(plan: Plan, table: Mapping[str, Trigger], lag: int) -> int:
    """Rows that a block must hold for actors to be ``lag`` rounds ahead, in whole rounds.

    Those that may be claimed and not yet acknowledged, and those that may be sampled meanwhile.
    Rounds lie contiguously then.
    """
    claimed = [each.size for found in demands(table).values() for each in found]
    rows = (lag + 1) * max([plan.steps, *claimed]) + plan.block(0).history
    return -(-rows // plan.steps) * plan.steps


def drawn_lag(table: Mapping[str, Trigger]) -> float:
    """Most versions that rows may be old when they are drawn; infinite if nothing bounds it."""
    lags = (part.draw.max_lag for part in parts_of(table) if part.draw is not None)
    return min((lag for lag in lags if lag is not None), default=math.inf)


def non_publishing_targets(plan: Plan) -> frozenset[str]:
    """Targets that only prepare an update: their learner publishes nothing when they fire."""
    return frozenset(
        f"{name}.{method}" for name in plan.learners for method in plan.of(name).non_publishing
    )


def paced(plan: Plan, table: Mapping[str, Trigger]) -> Trigger | None:
    """The only trigger of the policy's updates, if it is the only one and bounds its rows' lag."""
    prepare = non_publishing_targets(plan)
    claiming = [
        part
        for target, trigger in table.items()
        if parsed(target).role == plan.learner and target not in prepare
        for part in trigger.parts()
        if part.demand is not None
    ]
    if len(claiming) != 1 or claiming[0].demand is None or claiming[0].demand.max_lag is None:
        return None
    return claiming[0]


def in_step(plan: Plan, table: Mapping[str, Trigger]) -> bool:
    """Whether each version is made of one round of every actor."""
    part = paced(plan, table)
    demand = part.demand if part is not None else None
    return demand is not None and demand.n in (None, plan.actors) and demand.size == plan.steps


def is_of_some(plan: Plan, demand: Demand) -> bool:
    """Whether it takes rounds of some of the actors at a time."""
    return demand.n is not None and demand.n < plan.actors and demand.size == plan.steps


def window(plan: Plan, table: Mapping[str, Trigger]) -> Window:
    """What paces sampling if updates take rounds of only some actors; else it admits all."""
    part = paced(plan, table)
    return Window() if part is None or part.window is None else part.window
