"""How far ahead of the learner actors may be, by what the triggers of a table claim and draw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from triggers.base import Trigger
from triggers.targets import parsed
from triggers.window import Demand, Window

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


def lag_of(part: Trigger) -> int | None:
    """Most versions that the rows it hands over may be old; None if nothing bounds that."""
    if part.demand is not None:
        return part.demand.max_lag
    return part.draw.max_lag if part.draw is not None else None


def bounded(plan: Plan, table: Mapping[str, Trigger]) -> list[str]:
    """The learners whose rows may not be older than a ``max_lag`` of the table."""
    parts = ((parsed(target).role, part) for target, t in table.items() for part in t.parts())
    found = {role for role, part in parts if lag_of(part) is not None}
    return [name for name in plan.learners if name in found]


def lead(table: Mapping[str, Trigger], most: Mapping[str, int] = MappingProxyType({})) -> int:
    """Rounds actors may be ahead of the learners: the tightest ``max_lag`` of the table.

    What ``most`` says of a learner takes the place of its own. Without any ``max_lag`` sampling
    and learning alternate, as on-policy algorithms expect.
    """
    found = (most.get(parsed(target).role, lag) for target, _, lag in max_lags(table))
    return min(found, default=0)


def rows_ahead(plan: Plan, table: Mapping[str, Trigger], lag: int) -> int:
    """Rows that a block must hold for actors to be ``lag`` rounds ahead, in whole rounds.

    Those that may be claimed and not yet acknowledged, and those that may be sampled meanwhile.
    Rounds lie contiguously then.
    """
    claimed = [each.size for found in demands(table).values() for each in found]
    rows = (lag + 1) * max([plan.steps, *claimed]) + plan.block(0).history
    return -(-rows // plan.steps) * plan.steps


def drawn_lags(table: Mapping[str, Trigger]) -> dict[str, int]:
    """Most versions that rows may be old when they are drawn, by learner, where that is bounded."""
    found: dict[str, int] = {}
    for draw in (part.draw for part in parts_of(table) if part.draw is not None):
        if draw.max_lag is not None:
            role = parsed(draw.target).role
            found[role] = min(draw.max_lag, found.get(role, draw.max_lag))
    return found


def non_publishing_targets(plan: Plan) -> frozenset[str]:
    """Targets that only prepare an update: their learner publishes nothing when they fire."""
    return frozenset(
        f"{name}.{method}" for name in plan.learners for method in plan.of(name).non_publishing
    )


def _claiming(plan: Plan, table: Mapping[str, Trigger], learner: str) -> Trigger | None:
    """The trigger that claims the rows of a learner's updates, if it is the only one."""
    prepare = non_publishing_targets(plan)
    claiming = [
        part
        for target, trigger in table.items()
        if parsed(target).role == learner and target not in prepare
        for part in trigger.parts()
        if part.demand is not None
    ]
    return claiming[0] if len(claiming) == 1 else None


def paced(plan: Plan, table: Mapping[str, Trigger]) -> Trigger | None:
    """The only trigger of the policy's updates, if it is the only one and bounds its rows' lag."""
    part = _claiming(plan, table, plan.learner)
    return part if part is not None and lag_of(part) is not None else None


def in_step(plan: Plan, table: Mapping[str, Trigger]) -> bool:
    """Whether each version is made of one round of every actor.

    Those of the policy, of learners with a ``max_lag``, and those that sampling waits for.
    """
    awaited = {
        plan.object_name(part.cadence.key)
        for target, trigger in table.items()
        if parsed(target).samples
        for part in trigger.parts()
        if part.cadence is not None
    }
    names = {name for name in plan.learners if plan.weights_of(name) in awaited}
    for name in names | {plan.learner, *bounded(plan, table)}:
        part = _claiming(plan, table, name)
        demand = part.demand if part is not None else None
        if demand is None or demand.n not in (None, plan.actors) or demand.size != plan.steps:
            return False
    return True


def is_of_some(plan: Plan, demand: Demand) -> bool:
    """Whether it takes rounds of some of the actors at a time."""
    return demand.n is not None and demand.n < plan.actors and demand.size == plan.steps


def window(plan: Plan, table: Mapping[str, Trigger]) -> Window:
    """What paces sampling if updates take rounds of only some actors; else it admits all."""
    part = paced(plan, table)
    return Window() if part is None or part.window is None else part.window
