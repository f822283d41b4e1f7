"""Prints the wiring of a workload as a table and a drawing, before anything runs (leap 10)."""

from __future__ import annotations

from artos.plan import Plan
from triggers.data_key import DataKeyTrigger
from triggers.object_key import ObjectKeyTrigger
from triggers.table import Table
from triggers.time import TimeTrigger
from triggers.transfer import TransferTrigger
from triggers.wiring import role_of


def explain(plan: Plan, table: Table) -> str:
    """The whole wiring as text: facts, trigger table, data keys, drawing."""
    return "\n\n".join([_facts(plan), _triggers(table), _keys(plan), _drawing(plan, table)])


def _facts(plan: Plan) -> str:
    rows = plan.actors * plan.envs * plan.steps
    size = sum(key.row_bytes(plan.envs) for key in plan.data_keys) * plan.capacity
    return (
        f"{plan.name}: {plan.actors} actors x {plan.envs} environments of {plan.env}, rounds of "
        f"{plan.steps} steps ({rows} steps a round), {plan.total_steps} steps in all\n"
        f"buffer: {plan.capacity} rows and {size / 1e6:.1f} MB per actor, when full: {plan.on_full}; "
        f"model: {plan.objects[0].slots} slots of {plan.objects[0].slot_bytes / 1e6:.2f} MB"
    )


def _triggers(table: Table) -> str:
    rows = [("control logic", "trigger", "fires when")]
    rows += [(target, _name(t.parts()), _when(t.parts())) for target, t in table.items()]
    return _aligned(rows)


def _name(parts: tuple[object, ...]) -> str:
    return " , ".join(type(part).__name__ for part in parts)


def _when(parts: tuple[object, ...]) -> str:
    return "; ".join(_condition(part) for part in parts)


def _condition(part: object) -> str:
    match part:
        case DataKeyTrigger():
            who = "all actors" if part.n is None else f"{part.n} actor{'s' * (part.n != 1)}"
            bound = "" if part.max_lag is None else f", at most {part.max_lag} versions old"
            return f"{part.size} rows of {_short(part.keys)} from {who}{bound}"
        case ObjectKeyTrigger():
            rate = "" if part.every == 1 else f" (every {part.every}th)"
            ahead = f", actors up to {part.lead} rounds ahead" if part.lead else ""
            return f"a new version of {part.key}{rate}{ahead}"
        case TimeTrigger():
            return f"every {part.t:g} s"
        case TransferTrigger():
            return " then ".join(_short(stage) for stage in part.stages()) + f", {part.size} rows"
        case _:
            return repr(part)


def _short(keys: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(keys[:3])
    return shown if len(keys) <= 3 else f"{shown} and {len(keys) - 3} more keys"


def _keys(plan: Plan) -> str:
    rows = [("data key", "shape", "dtype", "bytes a row")]
    for key in plan.data_keys:
        shape = "x".join(map(str, key.row_shape(plan.envs))) or "1"
        stack = f" (stacks of {key.stack} rebuilt)" if key.stack > 1 else ""
        rows.append((key.name, shape + stack, key.dtype, str(key.row_bytes(plan.envs))))
    return _aligned(rows)


def _aligned(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])


def _drawing(plan: Plan, table: Table) -> str:
    learner = [t for t in table if role_of(t) == "learner"]
    actors = [t for t in table if role_of(t) == "actors"]
    transfer = " ~transfer~>" if "transfer" in table else ""
    left, right = f"{plan.actors} actors", "learner"
    return "\n".join(
        [
            f"  [{left}] --commit-->{transfer} [replay buffer] --{', '.join(learner) or 'nothing'}--> "
            f"[{right}]",
            f"      ^{' ' * 60}|",
            f"      +----{', '.join(actors) or 'nothing'}---- [model block] <----publish----+",
        ]
    )
