"""Checks the wiring of a workload before anything runs, and reports every fault with its cure."""

from __future__ import annotations

from collections.abc import Iterator

from artos.plan import Plan
from artos.spec import VERSION_KEY, closest
from triggers.data_key import DataKeyTrigger
from triggers.object_key import ObjectKeyTrigger
from triggers.table import Table
from triggers.time import TimeTrigger
from triggers.transfer import TransferTrigger
from triggers.wiring import data_triggers, lead, method_of, role_of, samples, sampling_parts

ROLES = ("actors", "learner", "transfer")


def faults(plan: Plan, table: Table) -> list[str]:
    """Everything wrong with a completed plan and its table, each with what to change (leap 10)."""
    found = [*_targets(plan, table), *_parameters(plan, table)]
    return found or [*_reachability(plan, table), *_amounts(plan, table)]


def _targets(plan: Plan, table: Table) -> Iterator[str]:
    for target in table:
        role, method = role_of(target), method_of(target)
        if role not in ROLES:
            yield (
                f"triggers[{target!r}]: there is no {role!r}{closest(role, ROLES)} "
                "(write learner.METHOD, actors.METHOD or transfer)"
            )
        elif role != "transfer" and method not in ("sync", *plan.methods.get(role, ())):
            known = plan.methods.get(role, ())
            yield f"triggers[{target!r}]: the {role} has no method {method!r}{closest(method, known)}"


def _parameters(plan: Plan, table: Table) -> Iterator[str]:
    data = [*(key.name for key in plan.data_keys), VERSION_KEY]
    objects = [o.name for o in plan.objects]
    for target, trigger in table.items():
        where = f"triggers[{target!r}]"
        for part in trigger.parts():
            match part:
                case DataKeyTrigger():
                    yield from _unknown(where, "data key", part.keys, data)
                    yield from _not_positive(where, n=part.n, size=part.size)
                    if part.max_lag is not None and part.max_lag < 0:
                        yield f"{where}: max_lag must not be negative, but is {part.max_lag}"
                case TransferTrigger():
                    names = [key for stage in part.stages() for key in stage]
                    yield from _unknown(where, "data key", names, data)
                    yield from _not_positive(where, size=part.size)
                case ObjectKeyTrigger():
                    yield from _unknown(where, "object key", (part.key,), objects)
                    yield from _not_positive(where, every=part.every)
                    if part.probability is not None and not 0 < part.probability <= 1:
                        yield f"{where}: probability must be within 0 and 1, not {part.probability}"
                case TimeTrigger():
                    yield from _not_positive(where, t=part.t)


def _unknown(where: str, kind: str, names: object, known: list[str]) -> Iterator[str]:
    for name in names if isinstance(names, tuple | list) else (names,):
        if name not in known:
            yield f"{where}: unknown {kind} {name!r}{closest(str(name), known)} (have {', '.join(known)})"


def _not_positive(where: str, **numbers: float | None) -> Iterator[str]:
    for name, value in numbers.items():
        if value is not None and not value > 0:
            yield f"{where}: {name} must be positive, not {value}"


def _reachability(plan: Plan, table: Table) -> Iterator[str]:
    if not any(samples(target) for target in table):
        yield 'nothing fires sampling: add e.g. "actors.sample": ObjectKeyTrigger("model_param")'
    if not any(role_of(target) == "learner" for target in table):
        yield 'nothing fires the learner: add e.g. "learner.update": DataKeyTrigger(keys, n, size)'
    for target, trigger in table.items():
        if role_of(target) == "actors" and trigger.keys_read():
            yield (
                f"triggers[{target!r}]: a DataKeyTrigger hands over rows, and actors take none: let a "
                "learner method consume them"
            )
    if plan.on_full == "wait" and not plan.consumers:
        yield 'nobody consumes data keys, so blocks fill up and wait forever: set on_full="overwrite"'


def _amounts(plan: Plan, table: Table) -> Iterator[str]:
    granted = _rows_before_update(plan, table)
    for target, parts in data_triggers(table).items():
        for part in parts:
            yield from _amount(plan, f"triggers[{target!r}]", part, granted)


def _amount(plan: Plan, where: str, part: DataKeyTrigger, granted: int | None) -> Iterator[str]:
    usable = plan.capacity - plan.block(0).history
    if part.n is not None and part.n > plan.actors:
        yield f"{where}: waits for n={part.n} actors, but there are {plan.actors}: raise actors or lower n"
    if part.size > usable:
        yield (
            f"{where}: size={part.size} rows never fit the capacity of {usable} usable rows: raise "
            "capacity or lower size"
        )
    elif granted is not None and part.size > granted:
        yield (
            f"{where}: waits for size={part.size} rows per actor, but actors are granted only {granted} "
            "before the next version, which this firing would make: a cycle that waits for itself; "
            "set size to steps or fewer"
        )
    elif granted is not None and plan.steps % part.size and part.size % plan.steps:
        yield (
            f"{where}: size={part.size} and rounds of steps={plan.steps} do not divide one another, so "
            "rows pile up: make one a multiple of the other"
        )


def _rows_before_update(plan: Plan, table: Table) -> int | None:
    """Rows per actor before the learner must publish; None if sampling does not wait for it."""
    parts = sampling_parts(table)
    if not parts or not all(isinstance(part, ObjectKeyTrigger) for part in parts):
        return None
    return plan.steps * (
        1 + max(lead(table), *(p.lead for p in parts if isinstance(p, ObjectKeyTrigger)))
    )
