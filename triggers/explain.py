"""Prints the wiring of a workload as a table and a drawing, before anything runs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from artos.buffer.model_block import ObjectSpec
from artos.envs.goals import goal_words
from artos.runs.plan import Plan
from artos.specs.keys import EVALUATION, MODEL_PARAM, READS
from artos.specs.settings import Setting
from triggers.checks import plural
from triggers.pacing import non_publishing_targets
from triggers.setting import settable
from triggers.table import Table
from triggers.targets import parsed

_WIDTH = 98
_FOLLOWS = "one thread, more while others leave cores free: a seed repeats all but the last bits"


def explain(plan: Plan, table: Table, settings: Sequence[Setting] = ()) -> str:
    """The whole wiring as text: facts, trigger table, keys, what fires what, settings."""
    each = plan.envs * plan.steps
    size = sum(key.row_bytes(plan.envs) for key in plan.data_keys) * plan.capacity / 1e6
    model = plan.objects[0]
    limits = {"steps": plan.total_steps, "updates": plan.total_updates}
    budget = " or ".join(f"{most} {unit}" for unit, most in limits.items() if most)
    spec = plan.env_spec or {}
    of = f" of {plan.env}" if plan.env else ""
    lines = [f"{plan.name}: {_span(plan)} actors x {plan.envs} environments{of}"]
    if names := spec.get("left_out", ()):
        lines.append(f"left out: {', '.join(names)}, as text is nothing a network reads")
    if (agents := spec.get("agents", 1)) > 1:
        lines.append(f"agents: {agents} in each game, each a row; one policy plays all of them")
    if goals := goal_words(key.name for key in plan.data_keys):
        lines.append(f"goals: {goals}")
    if scaling := plan.at_work.words():
        lines.append(f"scaling: {scaling}")
    if unlike := spec.get("unlike", ""):
        lines.append(f"environments: made anew in each clone, as two of them differ in {unlike}")
    lines += [
        f"sampling: rounds of {plan.steps} steps ({_span(plan, each)} over all actors and "
        f"environments), {budget} in all",
        f"buffer: {plan.capacity} rows and {size:.2f} MB per actor, when full: {plan.on_full}",
        f"model: {model.slots} slots of {model.slot_bytes / 1e6:.2f} MB{_past(model)}",
    ]
    for other in plan.beside:
        weights, read = other.objects[0], ", read by actors"
        slots = f"{weights.slots} slots of {weights.slot_bytes / 1e6:.2f} MB{_past(weights)}"
        lines.append(f"{other.learner}: {slots}{read * (other.learner in plan.read_learners)}")
    if found := settable(plan, table):
        names = ", ".join(f"{name}{each.range}" for name, each in found.items())
        lines += textwrap.wrap(f"settable: {names}", _WIDTH, subsequent_indent=" " * 10)
    for data in plan.data:
        wide = f" of {data.envs} environments" * (data.envs > 1)
        lines.append(f"data: {data.name}, {data.rows} rows{wide} in {data.path}")
    for server in plan.servers:
        by = f", by the weights of {server.of}" if server.of else ""
        many = plural(server.seats, "request")
        lines.append(
            f"{server.name}: answers {many} of each actor at once, {server.rows} rows at most{by}"
        )
    if plan.threads_follow:
        lines.append(f"learner: {_FOLLOWS}")
    rows = [(target, trigger.name, trigger.words()) for target, trigger in table.items()]
    triggers = _aligned([("control logic", "trigger", "fires on"), *rows])
    facts = "\n".join(lines)
    parts = [facts, triggers, _keys(plan), _objects(plan, table), _drawing(plan, table)]
    if settings:
        rows = [(f"{each.name}={each.default}", each.kind, each.does) for each in settings]
        options = _aligned([("--set NAME=VALUE", "type", "what it does"), *rows])
        parts.append("\n".join(line.rstrip() for line in options.splitlines()))
    return "\n\n".join(part for part in parts if part)


def _past(model: ObjectSpec) -> str:
    if not model.history:
        return ""
    kept = f"{model.history} past versions" if model.history > 1 else "a past version"
    return f", for {kept} too" + f", one of each {model.every}" * (model.every > 1)


def _span(plan: Plan, each: int = 1) -> str:
    """From the smallest to the largest number of actors, ``each`` times as much."""
    least, most = plan.at_work.least, plan.at_work.most
    return f"{least * each}" if least == most else f"{least * each} to {most * each}"


def _keys(plan: Plan) -> str:
    rows, networks = [], dict(plan.networks)
    for key in plan.data_keys:
        shape = "x".join(map(str, key.row_shape(plan.envs))) or "1"
        stack = f" (stacks of {key.stack} rebuilt)" if key.stack > 1 else ""
        size = str(key.row_bytes(plan.envs))
        rows.append((key.name, shape + stack, key.dtype, size, networks.get(key.name, "")))
    shown = 5 if networks else 4
    heads = ("data key", "shape", "dtype", "bytes a row", "network")
    table = _aligned([row[:shown] for row in (heads, *rows)])
    doubts = [f"note: {doubt}" for doubt in plan.doubts]
    return "\n".join(line.rstrip() for line in (*table.splitlines(), *doubts))


def _objects(plan: Plan, table: Table) -> str:
    """What learners publish beside their weights; empty if they publish nothing else."""
    rows = []
    for name, spec in plan.every_object.items():
        if spec.name != MODEL_PARAM:
            (value,) = spec.arrays
            shape = "x".join(map(str, value.shape)) or "1"
            readers = [target for target, t in table.items() if name in t.objects_read()]
            weights, *_ = plan.of(name.rpartition("/")[0] or plan.learner).objects
            read = (each.name.removeprefix(READS) for each in weights.arrays)
            if any(plan.object_name(each) == name for each in read):
                readers.append("actors, with the weights")
            if name in getattr(plan.scaling, "objects", ()):
                readers.append("scaling")
            if not readers and name in plan.wanted:
                readers.append("object_keys")
            rows.append((name, shape, value.dtype, ", ".join(readers) or "nothing"))
    return _aligned([("object key", "shape", "dtype", "read by"), *rows]) if rows else ""


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they need to be; the last one wraps at the edge of the page."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    used = sum(width + 2 for width in widths[:-1])
    widths[-1] = min(widths[-1], max(20, _WIDTH - used))
    lines = []
    for row in rows:
        left = "".join(f"{cell:<{width}}  " for cell, width in zip(row[:-1], widths, strict=False))
        wrapped = textwrap.wrap(row[-1], widths[-1], break_on_hyphens=False) or [""]
        lines.append(f"\n{' ' * used}".join((left + wrapped[0], *wrapped[1:])))
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _drawing(plan: Plan, table: Table) -> str:
    """What fires what: down from the actors to the model block, and from there up again."""
    stations = [(f"{_span(plan)} actors", ["commit rows"])]
    if "transfer" in table:
        stations.append(("cache buffer", _edges(table, "transfer")))
    stations.append(("replay buffer", _edges(table, *plan.learners)))
    non_publishing = non_publishing_targets(plan)
    for name in plan.learners:
        learner = [target for target in table if parsed(target).role == name]
        publishing = "publish a version"
        if not non_publishing.isdisjoint(learner):
            publishing += " on " + " and ".join(t for t in learner if t not in non_publishing)
        stations.append((name, [publishing]))
    evaluation = _edges(table, "evaluator") if EVALUATION in table else []
    stations.append(
        (f"model block{'s' * bool(plan.beside)}", [*_edges(table, "actors"), *evaluation])
    )
    stations += [(server.name, _edges(table, server.name)) for server in plan.servers]
    lines = ["what fires what:", ""]
    for number, (name, edges) in enumerate(stations):
        rail = "+->" if number == 0 else "|  "
        lines.append(f"  {rail} [{name}]")
        for edge in edges:
            hanging = " " * (len(edge) - len(edge.partition("  on ")[2].lstrip()))
            wide = textwrap.wrap(
                edge, _WIDTH - 12, subsequent_indent=hanging, break_on_hyphens=False
            )
            lines += [f"  |      |  {line}" for line in wide or [""]]
        lines.append("  |      v" if number < len(stations) - 1 else "  +------+")
    return "\n".join(lines)


def _edges(table: Table, role: str, *others: str) -> list[str]:
    targets = [target for target in table if parsed(target).role in (role, *others)]
    width = max(map(len, targets), default=0)
    edges = [f"{target:<{width}}  on {table[target].words()}" for target in targets]
    return edges or [f"nothing fires the {role}"]
