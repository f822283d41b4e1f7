"""What follows from a trigger table for the plan: consumers, capacity, draws. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy

import msgspec

from artos.buffer.layout import Consumer
from artos.buffer.model_block import ObjectSpec
from artos.runs.plan import Plan
from artos.runtime.taping import not_recorded
from artos.specs.configuration import MAX_LAG
from artos.specs.keys import EVALUATION, MODEL_PARAM, OTHER_VERSIONS, VERSION_KEY
from artos.specs.members import SET
from triggers.pacing import demands, hands_over_episodes, lead, parts_of, rows_ahead
from triggers.prewarm import PREWARM, PrewarmTrigger
from triggers.primitives import TransferTrigger
from triggers.requests import RequestTrigger
from triggers.table import Table
from triggers.targets import parsed
from triggers.updates import UpdateTrigger

SET_MAX_LAG = f"{SET}.{MAX_LAG}"
"""The target that says how old rows may be for the first learner."""


def completed(plan: Plan, table: Table) -> tuple[Plan, Table]:
    """The plan and the table with what each implies for the other; what was given stays as it is.

    The plan gets its consumers, its draws, and a capacity where none was given; triggers take over
    what follows for them.
    """
    implied: Table = {}
    if plan.evaluate_every:
        implied[EVALUATION] = UpdateTrigger(plan.evaluate_every)
    if plan.elastic.park == "checkpoint" and plan.elastic.prewarm != "off":
        implied[PREWARM] = PrewarmTrigger()
    for server in plan.servers:
        implied[server.target] = RequestTrigger(server.batch, server.wait)
    for target, due in implied.items():
        if target in table:
            continue
        plan = msgspec.structs.replace(plan, triggers=plan.triggers | {target: due.encode()})
        table = table | {target: due}
    whole = deepcopy(table)
    _complete(plan, whole)
    # What a limit allows is known before actors ask for it.
    whole = dict(
        sorted(whole.items(), key=lambda row: all(p.limit is None for p in row[1].parts()))
    )
    draws = tuple(part.draw for part in parts_of(whole) if part.draw is not None)
    claimed = [each for claims in demands(table).values() for each in claims]
    plan = msgspec.structs.replace(
        plan, consumers=consumers(table), draws=draws,
        short_rounds=bool(claimed) and all(each.episodes for each in claimed),
    )  # fmt: skip
    if not (plan.capacity or hands_over_episodes(table)):
        lags = [lead(table), *_lags_to_come(plan, table)]
        plan = msgspec.structs.replace(plan, capacity=rows_ahead(plan, table, max(lags)))
    return plan, whole


def _lags_to_come(plan: Plan, table: Table) -> list[int]:
    """What the table will set a ``max_lag`` to; what is no number is refused elsewhere."""
    targets = (f"{SET}.{plan.lag_setting(name)}" for name in plan.learners)
    values = [value for target in targets if target in table for value in table[target].sets]
    return [int(value) for value in values if isinstance(value, int | float) and 0 <= value < 2**31]


def _complete(plan: Plan, table: Table) -> None:
    for target, trigger in table.items():
        for part in trigger.parts():
            part.complete(target, plan, table)


def consumers(table: Table) -> tuple[Consumer, ...]:
    """One named cursor per target that claims rows."""
    return tuple(
        Consumer(target, tuple(dict.fromkeys(trigger.keys_read())))
        for target, trigger in table.items()
        if trigger.keys_read() and not parsed(target).ships
    )


# -- on a cluster ----------------------------------------------------------------------------------


def with_transfer(plan: Plan, table: Table) -> tuple[Plan, Table]:
    """Both with a transfer of all keys after each round, unless there is a transfer already."""
    if transfers(table):
        return plan, table
    size = 0 if plan.short_rounds else plan.steps
    whole = TransferTrigger(tuple(key.name for key in plan.data_keys), size)
    triggers, table = {"transfer": whole.encode(), **plan.triggers}, {"transfer": whole, **table}
    _complete(plan, table)
    return msgspec.structs.replace(plan, triggers=triggers), table


def transfers(table: Table) -> Table:
    """The part of a table that is checked on the workers, where rows are committed."""
    return {target: t for target, t in table.items() if parsed(target).ships}


def cache_plan(plan: Plan, table: Table) -> Plan:
    """The plan of the workers: blocks wait for transfers, and weights are the only objects.

    The evaluator does not live there, nor are data sets read there. Of learners beside the first
    there are the weights of those that actors read, or their servers answer by.
    """
    return msgspec.structs.replace(
        plan.undivided(),
        triggers={target: t for target, t in plan.triggers.items() if target != EVALUATION},
        on_full="wait",
        data=(),
        servers_apart=False,
        answers_travel=bool(plan.servers) and not any(not_recorded(plan)),
        consumers=stage_consumers(plan, table),
        objects=_public(plan.objects),
        beside=tuple(
            msgspec.structs.replace(each, objects=_public(each.objects))
            for each in plan.beside
            if each.learner in plan.sent_learners
        ),
    )


def _public(objects: Iterable[ObjectSpec]) -> tuple[ObjectSpec, ...]:
    return tuple(
        ObjectSpec.sized(o.name, o.public, o.readers, o.history, o.every)
        for o in objects
        if o.name == MODEL_PARAM
    )


def stage_consumers(plan: Plan, table: Table) -> tuple[Consumer, ...]:
    """A cursor per stage: policy versions travel in the first, keys without a stage in the last."""
    versions = [OTHER_VERSIONS + name for name in plan.read_learners] + [VERSION_KEY]
    stages = [
        [name for name in stage if name not in versions]
        for part in parts_of(transfers(table))
        for stage in part.stages()
    ]
    stages[0] += versions
    staged = {name for stage in stages for name in stage}
    stages[-1] += [key.name for key in plan.data_keys if key.name not in staged]
    return tuple(Consumer(f"transfer.{n}", tuple(stage)) for n, stage in enumerate(stages))
