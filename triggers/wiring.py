"""What follows from a trigger table: consumers, capacity, pacing. Pure arithmetic."""

from __future__ import annotations

import math
from copy import deepcopy

import msgspec

from artos.buffer.layout import Consumer
from artos.buffer.model_block import ObjectSpec
from artos.buffer.samplers.patterns import Draw
from artos.plan import Plan
from artos.spec import EVALUATION, MODEL_PARAM, VERSION_KEY
from triggers.base import Trigger
from triggers.prewarm import PREWARM, PrewarmTrigger
from triggers.primitives import DataKeyTrigger, ObjectKeyTrigger, TransferTrigger
from triggers.replay import ReplayTrigger, RoundTrigger
from triggers.table import Table
from triggers.updates import UpdateTrigger
from triggers.window import Window


def role_of(target: str) -> str:
    """The role of a target: ``actors``, ``learner``, ``evaluator`` or ``transfer``."""
    return target.partition(".")[0]


def method_of(target: str) -> str:
    """The method a target names; a transfer has none."""
    return target.partition(".")[2]


def non_publishing_targets(plan: Plan) -> frozenset[str]:
    """Targets that only prepare an update: the learner publishes nothing when they fire."""
    return frozenset(f"learner.{method}" for method in plan.non_publishing)


def data_triggers(table: Table) -> dict[str, list[DataKeyTrigger]]:
    """The data triggers of every learner target."""
    found: dict[str, list[DataKeyTrigger]] = {}
    for target, trigger in table.items():
        parts = [p for p in trigger.parts() if isinstance(p, DataKeyTrigger)]
        if parts and role_of(target) == "learner":
            found[target] = parts
    return found


def fewest(table: Table) -> int:
    """The smallest number of actors with which every trigger can still be satisfied."""
    return max((p.n or 1 for ps in data_triggers(table).values() for p in ps), default=1)


def consumers(table: Table) -> tuple[Consumer, ...]:
    """One named cursor per target that claims rows."""
    return tuple(
        Consumer(target, tuple(dict.fromkeys(trigger.keys_read())))
        for target, trigger in table.items()
        if trigger.keys_read() and role_of(target) != "transfer"
    )


def lead(table: Table) -> int:
    """Rounds actors may be ahead of the learner: the tightest ``max_lag`` of the table.

    Without any ``max_lag`` sampling and learning alternate, as on-policy algorithms expect.
    """
    return min((versions for _, _, versions in max_lags(table)), default=0)


def max_lags(table: Table) -> list[tuple[str, int, int]]:
    """Targets that bound the age of rows: target, rows per actor and update, most versions old."""
    parts = [(target, part) for target, ps in data_triggers(table).items() for part in ps]
    return [(target, p.size, p.max_lag) for target, p in parts if p.max_lag is not None]


def drawn_lag(table: Table) -> float:
    """Most versions that rows may be old when they are drawn; infinite if nothing bounds it."""
    bounds = (replay.max_lag for replay in replays(table).values())
    return min((lag for lag in bounds if lag is not None), default=math.inf)


def window(plan: Plan, table: Table) -> Window:
    """What paces sampling if updates take rounds of only some actors; else it admits all."""
    part = _paced(plan, table)
    return Window() if part is None else part.window


def _paced(plan: Plan, table: Table) -> DataKeyTrigger | None:
    """The only trigger of updates, if there is only one and it bounds the lag of its rows."""
    non_publishing = non_publishing_targets(plan)
    parts = [p for t, ps in data_triggers(table).items() if t not in non_publishing for p in ps]
    return parts[0] if len(parts) == 1 and parts[0].max_lag is not None else None


def sampling_parts(table: Table) -> list[Trigger]:
    """The primitives that fire sampling."""
    return [part for target, t in table.items() if samples(target) for part in t.parts()]


def samples(target: str) -> bool:
    """Whether a target grants rounds of sampling.

    ``actors.sync`` only binds new weights, ``actors.prewarm`` only has processes restored.
    """
    return role_of(target) == "actors" and method_of(target) not in ("sync", method_of(PREWARM))


def completed(plan: Plan, table: Table) -> tuple[Plan, Table]:
    """The plan and the table with what each implies for the other; what was given stays as it is.

    The plan gets its consumers, and a capacity where none was given. The triggers that invoke
    sampling get their lead, the one that paces it gets its window.
    """
    plan, table = _with_prewarming(*_with_evaluation(plan, table))
    paced = _with_pace(plan, table)
    return _with_draws(_with_consumers(plan, table), paced), paced


def _with_evaluation(plan: Plan, table: Table) -> tuple[Plan, Table]:
    if not plan.evaluate_every or EVALUATION in table:
        return plan, table
    due = UpdateTrigger(plan.evaluate_every)
    triggers = plan.triggers | {EVALUATION: due.encode()}
    return msgspec.structs.replace(plan, triggers=triggers), table | {EVALUATION: due}


def _with_prewarming(plan: Plan, table: Table) -> tuple[Plan, Table]:
    elastic = plan.elastic
    if elastic.park != "checkpoint" or elastic.prewarm == "off" or PREWARM in table:
        return plan, table
    trigger = PrewarmTrigger()
    triggers = plan.triggers | {PREWARM: trigger.encode()}
    return msgspec.structs.replace(plan, triggers=triggers), table | {PREWARM: trigger}


def _with_pace(plan: Plan, table: Table) -> Table:
    paced, ahead = deepcopy(table), lead(table)
    for part in sampling_parts(paced):
        if isinstance(part, ObjectKeyTrigger) and part.key == MODEL_PARAM:
            part.lead = max(part.lead, ahead)
    _open_window(plan, _paced(plan, paced))
    _limit_rates(plan, paced)
    # What a ratio allows is known before actors ask for it.
    return dict(sorted(paced.items(), key=lambda entry: entry[0] not in replays(paced)))


def replays(table: Table) -> dict[str, ReplayTrigger]:
    """The replay trigger of every target that has one."""
    parts = ((t, part) for t, trigger in table.items() for part in trigger.parts())
    return {target: part for target, part in parts if isinstance(part, ReplayTrigger)}


def ample_slack(plan: Plan, replay: ReplayTrigger) -> float:
    """Draws of a round and a batch: with that learner and actors both work; half is the least."""
    return replay.ratio * plan.steps * plan.envs + replay.sample.rows


def _limit_rates(plan: Plan, table: Table) -> None:
    """Actors keep to the ratio of every replay trigger of the table."""
    found = replays(table)
    for target, replay in found.items():
        replay.target, replay.envs = target, plan.envs
        if replay.slack is None and isinstance(replay.ratio, int | float):
            replay.limit.slack = ample_slack(plan, replay)
    for part in sampling_parts(table):
        if isinstance(part, RoundTrigger):
            part.steps, part.envs = plan.steps, plan.envs
            part.limits = tuple(replay.limit for replay in found.values())
    if transfers(table):
        _wait_for_all_keys(plan, table)


def _wait_for_all_keys(plan: Plan, table: Table) -> None:
    """Keys that are transferred come one after the other; a round is there once all of them are."""
    for part in sampling_parts(table):
        if isinstance(part, RoundTrigger):
            part.keys = tuple(key.name for key in plan.data_keys)


def _with_draws(plan: Plan, table: Table) -> Plan:
    draws = [Draw(t, r.keys, r.sample, r.max_lag) for t, r in replays(table).items()]
    return msgspec.structs.replace(plan, draws=tuple(draws))


def _open_window(plan: Plan, part: DataKeyTrigger | None) -> None:
    if part is None or part.n is None or part.max_lag is None:
        return
    if part.n < plan.actors and part.size == plan.steps:
        part.window = Window(part.n, part.max_lag)


def _with_consumers(plan: Plan, table: Table) -> Plan:
    """Give the plan its consumers, and a capacity where none was given.

    It holds the rows that may be claimed and not yet acknowledged plus those that may be sampled
    meanwhile, in whole rounds so that rounds lie contiguously.
    """
    draft = msgspec.structs.replace(plan, consumers=consumers(table))
    if plan.capacity:
        return draft
    largest = max((p.size for ps in data_triggers(table).values() for p in ps), default=plan.steps)
    rows = (lead(table) + 1) * max(largest, plan.steps) + draft.block(0).history
    return msgspec.structs.replace(draft, capacity=-(-rows // plan.steps) * plan.steps)


# -- on a cluster ----------------------------------------------------------------------------------


def with_transfer(plan: Plan, table: Table) -> tuple[Plan, Table]:
    """Both with a transfer of all keys after each round, unless there is a transfer already."""
    if transfers(table):
        return plan, table
    whole = TransferTrigger(tuple(key.name for key in plan.data_keys), plan.steps)
    triggers = {"transfer": whole.encode(), **plan.triggers}
    _wait_for_all_keys(plan, table)
    return msgspec.structs.replace(plan, triggers=triggers), {"transfer": whole, **table}


def transfers(table: Table) -> Table:
    """The part of a table that is checked on the workers, where rows are committed."""
    return {target: t for target, t in table.items() if role_of(target) == "transfer"}


def cache_plan(plan: Plan, table: Table) -> Plan:
    """The plan of the workers: blocks wait for transfers, and weights are the only object.

    The evaluator does not live there.
    """
    return msgspec.structs.replace(
        plan,
        triggers={target: t for target, t in plan.triggers.items() if target != EVALUATION},
        on_full="wait",
        consumers=stage_consumers(plan, table),
        objects=tuple(
            ObjectSpec.sized(o.name, o.public, o.readers)
            for o in plan.objects
            if o.name == MODEL_PARAM
        ),
    )


def stage_consumers(plan: Plan, table: Table) -> tuple[Consumer, ...]:
    """A cursor per stage: policy versions travel in the first, keys without a stage in the last."""
    parts = [part for trigger in transfers(table).values() for part in trigger.parts()]
    stages = [
        [name for name in stage if name != VERSION_KEY]
        for part in parts
        if isinstance(part, TransferTrigger)
        for stage in part.stages()
    ]
    staged = {name for stage in stages for name in stage}
    stages[0].append(VERSION_KEY)
    stages[-1] += [key.name for key in plan.data_keys if key.name not in staged]
    return tuple(Consumer(f"transfer.{n}", tuple(stage)) for n, stage in enumerate(stages))
