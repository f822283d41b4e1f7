"""Checks the wiring of a workload before anything runs; each fault says what to change."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from artos.buffer.layout import MAX_CONSUMERS
from artos.closest import closest
from artos.plan import Plan
from artos.spec import EVALUATION, MODEL_PARAM, VERSION_KEY
from triggers.base import And, Or, Trigger
from triggers.prewarm import PREWARM, PrewarmTrigger
from triggers.primitives import DataKeyTrigger, ObjectKeyTrigger, TimeTrigger, TransferTrigger
from triggers.replay import ReplayTrigger, RoundTrigger
from triggers.table import Table
from triggers.updates import UpdateTrigger
from triggers.verify import cycles, non_publishing, replay
from triggers.wiring import method_of, role_of, samples

_WITHOUT_A_METHOD = ("sync", method_of(PREWARM))
ROLES = ("actors", "learner", "evaluator", "transfer")


def faults(plan: Plan, table: Table) -> list[str]:
    """Everything wrong with a completed plan and its table, each with what to change.

    Names and numbers are checked first: only if they are right does it make sense to ask whether
    the wiring can make progress.
    """
    found = [*_targets(plan, table), *_parameters(plan, table), *_read_elsewhere(plan, table)]
    return found or [
        *_edges(plan, table),
        *replay.faults(plan, table),
        *_shipping(plan, table),
        *non_publishing.faults(plan, table),
        *cycles.faults(plan, table),
    ]


def _targets(plan: Plan, table: Table) -> Iterator[str]:
    for target in table:
        role, method = role_of(target), method_of(target)
        known = plan.methods.get(role, ())
        where = f"triggers[{target!r}]"
        if role not in ROLES or (role == "transfer" and method):
            yield (
                f"{where}: there is no {target!r}{closest(role, ROLES)} "
                f"(write learner.METHOD, actors.METHOD, {EVALUATION} or transfer)"
            )
        elif role == "actors" and method not in (known := (*known, *_WITHOUT_A_METHOD)):
            yield f"{where}: the actor has no method {method!r}{closest(method, known)}"
        elif role == "learner" and method not in known:
            yield f"{where}: the learner has no method {method!r}{closest(method, known)}"
        elif role == "evaluator" and target != EVALUATION:
            yield f"{where}: the evaluator has no method {method!r}: write {EVALUATION!r}"


def _parameters(plan: Plan, table: Table) -> Iterator[str]:
    data = [*(key.name for key in plan.data_keys), VERSION_KEY]
    objects = [o.name for o in plan.objects]
    for target, trigger in table.items():
        for part in trigger.parts():
            for fault in _primitive(part, data, objects):
                yield f"triggers[{target!r}]: {fault}"


def _primitive(part: Trigger, data: Sequence[str], objects: Sequence[str]) -> Iterator[str]:
    match part:
        case DataKeyTrigger():
            yield from _unknown("data key", part.keys, data)
            yield from _unknown("object key", (part.object_key,), objects)
            if part.object_key in objects and part.object_key != MODEL_PARAM:
                yield f"object_key must be {MODEL_PARAM!r}: lag counts versions of the weights"
            yield from _counts(1, n=part.n, size=part.size)
            yield from _counts(0, max_lag=part.max_lag)
        case ReplayTrigger():
            yield from _unknown("data key", part.keys, data)
            yield from _counts(0, max_lag=part.max_lag)
        case RoundTrigger():
            yield from _counts(1, ahead=part.ahead)
        case TransferTrigger():
            yield from _unknown("data key", [k for stage in part.stages() for k in stage], data)
            yield from _counts(1, size=part.size)
        case ObjectKeyTrigger():
            if part.key not in objects:
                yield _unpublished(part.key, objects)
            yield from _counts(1, every=part.every)
            yield from _counts(0, lead=part.lead)
            if part.probability is not None and not _within(part.probability, 0, 1):
                yield f"probability must be above 0 and at most 1, not {part.probability!r}"
        case UpdateTrigger():
            yield from _counts(1, every=part.every)
        case TimeTrigger() if not isinstance(part, PrewarmTrigger):
            if not _within(part.t, 0, math.inf) or part.t == math.inf:
                yield f"t must be a positive number of seconds, not {part.t!r}"


def _read_elsewhere(plan: Plan, table: Table) -> Iterator[str]:
    """Objects that only the workload or its scaling policy names."""
    known = [o.name for o in plan.objects]
    named = {key for trigger in table.values() for key in trigger.objects_read()}
    for name in plan.wanted:
        if name not in known and name not in named:
            yield f"scaling or object_keys: {_unpublished(name, known)}"


def _unpublished(name: str, known: Sequence[str]) -> str:
    return (
        f"unknown object key {name!r}{closest(name, known)} (have {', '.join(known)}): the learner "
        "does not publish it; name it in the learner's objects, and call self.publish"
    )


def _unknown(kind: str, names: Sequence[str], known: Sequence[str]) -> Iterator[str]:
    if not names:
        yield f"names no {kind}: name one of {', '.join(known)}"
    for name in names:
        if name not in known:
            have = f"(have {', '.join(known)})"
            yield f"unknown {kind} {name!r}{closest(str(name), known)} {have}"


def _counts(least: int, **numbers: Any) -> Iterator[str]:
    for name, value in numbers.items():
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (whole and value >= least):
            yield f"{name} must be a whole number of at least {least}, not {value!r}"


def _within(value: Any, above: float, most: float) -> bool:
    return isinstance(value, int | float) and above < value <= most


def _edges(plan: Plan, table: Table) -> Iterator[str]:
    if not any(samples(target) for target in table):
        yield 'nothing fires sampling: add e.g. "actors.sample": ObjectKeyTrigger("model_param")'
    if not any(role_of(target) == "learner" for target in table):
        yield 'nothing fires the learner: add e.g. "learner.update": DataKeyTrigger(keys, n, size)'
    if plan.on_full == "wait" and not plan.consumers:
        yield (
            "nothing consumes data keys, so blocks fill up and actors wait forever: set "
            'on_full="overwrite"'
        )
    if len(plan.consumers) > MAX_CONSUMERS:
        yield f"{len(plan.consumers)} targets consume rows: a block has room for {MAX_CONSUMERS}"
    for target, trigger in table.items():
        yield from (f"triggers[{target!r}]: {fault}" for fault in _edge(target, trigger))


def _edge(target: str, trigger: Trigger) -> Iterator[str]:
    claiming = [part for part in trigger.parts() if isinstance(part, DataKeyTrigger)]
    if role_of(target) == "actors" and claiming:
        yield (
            "a DataKeyTrigger hands over rows, and actors take none: let a learner method consume "
            "them"
        )
    elif role_of(target) == "evaluator" and claiming:
        yield (
            "a DataKeyTrigger hands over rows, and the evaluator takes none: let an "
            "ObjectKeyTrigger or a TimeTrigger say when it plays"
        )
    elif target != PREWARM and any(isinstance(p, PrewarmTrigger) for p in trigger.parts()):
        yield f"a PrewarmTrigger only has actors restored: write {PREWARM!r}"
    elif role_of(target) == "learner" and len(claiming) > 1:
        yield (
            "two DataKeyTriggers in one target would hand over the same rows twice: use one with "
            "all keys, or two targets"
        )
    if any(part.max_lag is not None for part in _held(trigger)):
        yield (
            "max_lag cannot be kept inside `&`, where claimed rows wait for the other side while "
            "versions move on: leave out max_lag, or the other side"
        )


def _held(trigger: Trigger) -> Iterable[DataKeyTrigger]:
    """Data triggers whose firings wait for another trigger."""
    if isinstance(trigger, And):
        return [part for part in trigger.parts() if isinstance(part, DataKeyTrigger)]
    if isinstance(trigger, Or):
        return [*_held(trigger.left), *_held(trigger.right)]
    return ()


def _shipping(plan: Plan, table: Table) -> Iterator[str]:
    """Faults of the transfer from cache buffer to replay buffer, if the table has one."""
    shipped = {VERSION_KEY}
    for target, trigger in table.items():
        where = f"triggers[{target!r}]"
        ships = [part for part in trigger.parts() if isinstance(part, TransferTrigger)]
        shipped.update(key for part in ships for stage in part.stages() for key in stage)
        if role_of(target) != "transfer" and ships:
            yield f'{where}: a TransferTrigger fires transfers: write "transfer": TransferTrigger()'
        elif role_of(target) == "transfer" and not isinstance(trigger, TransferTrigger):
            yield f"{where}: a transfer needs TransferTrigger(keys, condition=TRIGGER)"
        elif role_of(target) == "transfer" and trigger.keys_read() + _claims_inside(trigger):
            yield f"{where}: its condition waits for rows that only arrive after it ships them"
    if "transfer" in table:
        for consumer in plan.consumers:
            for key in (key for key in consumer.keys if key not in shipped):
                yield (
                    f"triggers[{consumer.name!r}]: data key {key!r} never arrives in the replay "
                    "buffer: add it to a stage of the transfer"
                )


def _claims_inside(trigger: Trigger) -> tuple[str, ...]:
    parts = [part for part in trigger.parts() if isinstance(part, DataKeyTrigger)]
    return tuple(key for part in parts for key in part.keys)
