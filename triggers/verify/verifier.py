"""Checks the wiring of a workload before anything runs; each fault says what to change."""

from __future__ import annotations

from collections.abc import Iterator

from artos.buffer.layout import MAX_CONSUMERS, MAX_KEYS
from artos.runs.plan import Plan
from artos.specs.keys import ANSWER, EVALUATION, MODEL_PARAM, VERSION_KEY
from artos.specs.members import ACTORS, EVALUATOR, SET, TRANSFER
from artos.system.closest import closest
from triggers.base import Trigger
from triggers.checks import unpublished
from triggers.pacing import parts_of
from triggers.remembering import text_of
from triggers.requests import request_faults
from triggers.setting import lag_settings, lowering_faults, settable, setting_faults
from triggers.table import Table
from triggers.targets import WITHOUT_A_METHOD, parsed
from triggers.verify import cycles, non_publishing
from triggers.wiring import transfers

_ADVICE = {EVALUATOR: f": write {EVALUATION!r}"}


def faults(plan: Plan, table: Table) -> list[str]:
    """Everything wrong with a completed plan and its table, each with what to change.

    Names and numbers are checked first: only if they are right does it make sense to ask whether
    the wiring can make progress.
    """
    found = [*_targets(plan, table)]
    for target, trigger in table.items():
        for part in trigger.parts():
            own = (*part.faults(plan), *_unkept(part))
            found += [f"triggers[{target!r}]: {fault}" for fault in own]
        found += [f"triggers[{target!r}]: {fault}" for fault in _lag_faults(plan, table, target)]
    for target in (each for each in table if parsed(each).role == SET):
        found += [f"triggers[{target!r}]: {fault}" for fault in _set_faults(plan, table, target)]
    named = {key for trigger in table.values() for key in trigger.objects_read()}
    for name in plan.wanted:  # also by the workload or its scaling policy
        if name not in named:
            found += [f"scaling or object_keys: {fault}" for fault in unpublished(name, plan)]
    return found or [
        *_edges(plan, table),
        *_shipping(plan, table),
        *request_faults(plan, table),
        *non_publishing.faults(plan, table),
        *cycles.faults(plan, table),
    ]


def _targets(plan: Plan, table: Table) -> Iterator[str]:
    known = {
        ACTORS: (*plan.methods.get(ACTORS, ()), *WITHOUT_A_METHOD),
        **{name: plan.methods.get(name, ()) for name in plan.learners},
        EVALUATOR: (parsed(EVALUATION).method,),
        TRANSFER: ("",),
        **{server.name: (ANSWER,) for server in plan.servers},
        SET: tuple(settable(plan, table)),
    }
    for target in table:
        role, method = parsed(target)
        where = f"triggers[{target!r}]"
        if role not in known or (parsed(target).ships and method):
            names = [
                *(f"{name}.METHOD" for name in plan.learners),
                *(s.target for s in plan.servers),
            ]
            learners = ", ".join(names)
            yield (
                f"{where}: there is no {target!r}{closest(role, [*known])} "
                f"(write {learners}, actors.METHOD, {EVALUATION}, {SET}.NAME or transfer)"
            )
        elif method == ANSWER and role in plan.learners:
            yield f"{where}: {ANSWER} is what servers do: give the learner's method another name"
        elif method not in known[role] and role == SET:
            can = ", ".join(f"{SET}.{name}" for name in known[SET]) or "nothing"
            near = closest(method, known[SET])
            yield f"{where}: {method!r} cannot be set while the run goes (what can: {can}){near}"
        elif method not in known[role]:
            near = _ADVICE.get(role) or closest(method, known[role])
            yield f"{where}: the {role.removesuffix('s')} has no method {method!r}{near}"


def _unkept(part: Trigger) -> Iterator[str]:
    """Why what it is to go on with in a resumed run cannot be saved."""
    try:
        text_of(part)
    except Exception as error:  # whatever triggers of users hold
        yield f"kept: name attributes that are numbers, strings or lists of these ({error})"


def _lag_faults(plan: Plan, table: Table, target: str) -> Iterator[str]:
    """Why the rows of a learner beside the first one cannot be kept as new as its trigger says."""
    learner = parsed(target).role
    claims = [p.demand for p in table[target].parts() if p.demand and p.demand.max_lag is not None]
    draws = any(part.draw and part.draw.max_lag is not None for part in table[target].parts())
    if learner not in plan.learners[1:] or not (claims or draws):
        return
    if learner not in plan.read_learners:
        yield (
            f"max_lag counts versions of the {learner}, and no row is made by one: let actors read "
            f'them, reads=("{learner}/{MODEL_PARAM}",), or leave max_lag out'
        )
        return
    if any(each.n not in (None, plan.actors) for each in claims):
        yield (
            "max_lag paces actors for the rounds of some of them only where the first learner, "
            f"{plan.learner}, takes these: leave out n, or max_lag"
        )
    sampling = [part.cadence for t in table if parsed(t).samples for part in table[t].parts()]
    keys = {cadence.key for cadence in sampling if cadence is not None}
    if claims and None not in sampling and plan.weights_of(learner) not in keys:
        yield (
            f"actors do not wait for versions of the {learner}, so rows would get older than its "
            f'max_lag={claims[0].max_lag} and be given up: write "actors.sample": '
            f'ObjectKeyTrigger("{plan.learner}/{MODEL_PARAM}") & '
            f'ObjectKeyTrigger("{learner}/{MODEL_PARAM}")'
        )


def _set_faults(plan: Plan, table: Table, target: str) -> Iterator[str]:
    """What is wrong with a row that sets something, by name known."""
    name, values = parsed(target).method, table[target].sets
    if not values:
        yield f"sets nothing: write SetTrigger(when={table[target].name}(...), set=VALUE)"
    elif name in settable(plan, table):
        found = [each for value in values for each in setting_faults(plan, table, {name: value})]
        if not found and (of := lag_settings(plan, table).get(name)) is not None:
            found = lowering_faults(plan, table, of, values)
        yield from found


def _edges(plan: Plan, table: Table) -> Iterator[str]:
    if plan.actors and not any(parsed(target).samples for target in table):
        yield 'nothing fires sampling: add e.g. "actors.sample": ObjectKeyTrigger("model_param")'
    for name in plan.learners:
        if not any(parsed(target).role == name for target in table):
            yield (
                f'nothing fires the {name}: add e.g. "{name}.update": DataKeyTrigger(keys, n, size)'
            )
    if plan.actors and plan.on_full == "wait" and not plan.consumers:
        yield (
            "nothing consumes data keys, so blocks fill up and actors wait forever: set "
            'on_full="overwrite"'
        )
    if len(plan.consumers) > MAX_CONSUMERS:
        yield f"{len(plan.consumers)} targets consume rows: a block has room for {MAX_CONSUMERS}"
    if len(plan.data_keys) >= MAX_KEYS:
        yield (
            f"actors write {len(plan.data_keys)} data keys: a block has room for {MAX_KEYS - 1}; "
            "store several as one array, or leave out of data_keys what nothing reads"
        )
    drawn = {name for part in parts_of(table) if part.draw for name in part.draw.data}
    for name in (each.name for each in plan.data if each.name not in drawn):
        yield (
            f"data[{name!r}]: no trigger draws from it: name it in one, ReplayTrigger(KEYS, "
            f'PATTERN, source="{name}"), or leave it out'
        )
    for target, trigger in table.items():
        where = f"triggers[{target!r}]"
        if not plan.actors and parsed(target).learns and any(p.awaits for p in trigger.parts()):
            yield (
                f"{where}: waits for rows of actors, and actors=0 brings none: draw from a data "
                "set, ReplayTrigger(KEYS, PATTERN, source=NAME), or raise actors"
            )
        misfits = dict.fromkeys(why for part in trigger.parts() if (why := part.misfit(target)))
        yield from (f"{where}: {why}" for why in misfits)
        claims = [part.demand for part in trigger.parts() if part.demand is not None]
        if parsed(target).learns and len(claims) > 1:
            yield (
                f"{where}: two DataKeyTriggers in one target would hand over the same rows twice: "
                "use one with all keys, or two targets"
            )
        if any(demand.episodes for demand in trigger.waiting):
            yield (
                f"{where}: whole episodes cannot wait inside `&` for the other side, as some of "
                "them are given up: leave out Episodes(n), or the other side"
            )
        if any(demand.max_lag is not None for demand in trigger.waiting):
            yield (
                f"{where}: max_lag cannot be kept inside `&`, where claimed rows wait for the "
                "other side while versions move on: leave out max_lag, or the other side"
            )


def _shipping(plan: Plan, table: Table) -> Iterator[str]:
    """Faults of the transfer from cache buffer to replay buffer, if the table has one."""
    shipped = {
        VERSION_KEY,
        *(k for part in parts_of(table) for stage in part.stages() for k in stage),
    }
    for target in transfers(table):
        where, trigger = f"triggers[{target!r}]", table[target]
        if not trigger.stages():
            yield f"{where}: a transfer needs TransferTrigger(keys, condition=TRIGGER)"
        elif any(part.demand is not None for part in trigger.parts()):
            yield f"{where}: its condition waits for rows that only arrive after it ships them"
        elif plan.short_rounds and any(part.awaits for part in trigger.parts()):
            yield (
                f"{where}: ships rows by number, so an episode's last ones would wait for those of "
                "another episode: set size=0, which ships what there is"
            )
    if "transfer" in table:
        for consumer in plan.consumers:
            for key in (key for key in consumer.keys if key not in shipped):
                yield (
                    f"triggers[{consumer.name!r}]: data key {key!r} never arrives in the replay "
                    "buffer: add it to a stage of the transfer"
                )
