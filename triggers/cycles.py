"""Finds cycles that wait for themselves: can a round of sampling ever lead to the next one?"""

from __future__ import annotations

from collections.abc import Iterator

from artos.plan import Plan
from triggers.data_key import DataKeyTrigger
from triggers.object_key import ObjectKeyTrigger
from triggers.table import Table
from triggers.transfer import TransferTrigger
from triggers.wiring import data_triggers, lead, role_of, sampling_parts


def faults(plan: Plan, table: Table) -> list[str]:
    """Amounts of rows with which the run would stand still, each with what to change (leap 10)."""
    granted = _rows_before_update(plan, table)
    found = [*_capacity(plan), *_chances(table)]
    for target, part in _waiting(table):
        where = f"triggers[{target!r}]"
        own = [*_actors(plan, part), *_size(plan, part.size, granted)]
        found += [f"{where}: {fault}" for fault in own or _versions(plan, table, part, granted)]
    return found


def _waiting(table: Table) -> Iterator[tuple[str, DataKeyTrigger | TransferTrigger]]:
    for target, parts in data_triggers(table).items():
        yield from ((target, part) for part in parts)
    for target, trigger in table.items():
        if role_of(target) == "transfer" and isinstance(trigger, TransferTrigger):
            yield target, trigger


def _usable(plan: Plan) -> int:
    return plan.capacity - plan.block(0).history


def _capacity(plan: Plan) -> Iterator[str]:
    if plan.steps > _usable(plan):
        yield (
            f"a round of steps={plan.steps} never fits the capacity of {_usable(plan)} usable "
            "rows: raise capacity or lower steps"
        )


def _actors(plan: Plan, part: DataKeyTrigger | TransferTrigger) -> Iterator[str]:
    if not isinstance(part, DataKeyTrigger) or part.n is None:
        return
    if part.n > plan.actors:
        yield f"waits for n={part.n} actors, but there are {plan.actors}: raise actors or lower n"
    elif part.n > (least := plan.at_work.least):
        yield (
            f"waits for n={part.n} actors, but at times there are only {least}: leave out n to "
            "wait for all there are, or lower it"
        )


def _size(plan: Plan, size: int, granted: int | None) -> Iterator[str]:
    if size > _usable(plan):
        yield (
            f"size={size} rows never fit the capacity of {_usable(plan)} usable rows: raise "
            "capacity or lower size"
        )
    elif granted is not None and size > granted:
        yield (
            f"waits for size={size} rows per actor, but actors are granted only {granted} before "
            "the next version, which this firing would make: a cycle that waits for itself; set "
            "size to steps or fewer"
        )
    elif granted is not None and plan.steps % size and size % plan.steps:
        yield (
            f"size={size} and rounds of steps={plan.steps} do not divide one another, so rows pile "
            "up: make one a multiple of the other"
        )


def _versions(
    plan: Plan, table: Table, part: DataKeyTrigger | TransferTrigger, granted: int | None
) -> Iterator[str]:
    """Sampling on every k-th version needs k updates from the rows of one grant."""
    if granted is None or not isinstance(part, DataKeyTrigger):
        return
    every = min(p.every for p in sampling_parts(table) if isinstance(p, ObjectKeyTrigger))
    actors = plan.at_work.least
    batches = (granted // part.size) * actors // (actors if part.n is None else part.n)
    if every > batches:
        yield (
            f"one round feeds {batches} updates, but sampling waits for every={every} versions: a "
            "cycle that waits for itself; sample on every version, and put every= on actors.sync"
        )


def _chances(table: Table) -> Iterator[str]:
    parts = sampling_parts(table)
    chances = [p.probability for p in parts if isinstance(p, ObjectKeyTrigger)]
    if parts and len(chances) == len(parts) and all(c is not None and c < 1 for c in chances):
        yield (
            "sampling is only ever fired with a probability, so it stops for good once nobody is "
            "chosen: sample on every version, and put probability= on actors.sync"
        )


def _rows_before_update(plan: Plan, table: Table) -> int | None:
    """Rows per actor before the learner must publish; None if sampling does not wait for it."""
    parts = sampling_parts(table)
    if not parts or not all(isinstance(part, ObjectKeyTrigger) for part in parts):
        return None
    leads = [part.lead for part in parts if isinstance(part, ObjectKeyTrigger)]
    return plan.steps * (1 + max(lead(table), *leads))
