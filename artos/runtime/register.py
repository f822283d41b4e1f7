"""Registration: turns a reference into a plan, or into all reasons why it cannot be one.

It runs user code (it builds the environment, the policy and the learner once), so it has a process
of its own: ``python -P -m artos.runtime.register REFERENCE_JSON SEED``. Standard output has a line
of JSON whenever code of the user's that may never return is called or has returned (``UnderWay``),
and the answer as the last one; whatever user code prints goes to standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from artos.buffer.model_block import MOST_PAST
from artos.errors import Refused
from artos.learners.publisher import published
from artos.runs.data_sets import examined
from artos.runs.loader import (
    UNLIMITED,
    build_workload,
    last_lines,
    settings_of_workload,
)
from artos.runs.plan import Beside, Plan
from artos.runs.users_code import imported
from artos.runtime.agent_faults import parts_of_data, policy_faults, table_faults
from artos.runtime.learner_registration import (
    fired,
    learner_faults,
    objects,
    unlike,
    with_learner,
)
from artos.runtime.member import MOST_EPISODES
from artos.runtime.no_numbers import no_numbers
from artos.runtime.no_triggers import no_triggers
from artos.runtime.resolved import resolved_settings, versions
from artos.runtime.servers import servers_of
from artos.specs.bound import Bound
from artos.specs.by_learner import unknown
from artos.specs.configuration import Changeable
from artos.specs.contracts import Actor, Learner, broken, methods, own
from artos.specs.data import DataSet
from artos.specs.devices import read
from artos.specs.keys import (
    CONFIGURATION_KEY,
    EVALUATION,
    MODEL_PARAM,
    OTHER_VERSIONS,
    PARAMS,
    ArraySpec,
    CheckpointSetting,
    DataKey,
    ObjectKey,
    OnFull,
    full_name,
    read_learners,
)
from artos.specs.kinds import known_kinds
from artos.specs.members import ACTORS
from artos.specs.reference import Reference
from artos.specs.settings import Setting
from artos.specs.weight import weight_faults
from artos.specs.workload import Workload
from artos.system.child import end_with_parent
from artos.system.closest import closest
from artos.system.random_streams import seed_of
from artos.system.under_way import tell

T = TypeVar("T")
_PLAYS = ("env", "spec", "build_module", "make_policy")
"""What an evaluation needs of an actor."""
_MOST_PRIORITY = 1000
_LEARNERS = (0, 0, 0)
"""Begins the paths to the seeds of learners: those of actors and samplers are shorter."""


class Registered(msgspec.Struct):
    """The answer: a plan, or faults. Beside faults, a plan only serves to find more of them.

    ``resolved`` holds all settings of the workload, ``versions`` those of the packages it uses.
    """

    plan: Plan | None = None
    faults: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    resolved: dict[str, Any] = {}
    versions: dict[str, str] = {}


def register_text(reference: str, seed: int) -> bytes:
    """``register`` with JSON in and out."""
    decoded = msgspec.json.decode(reference, type=Reference)
    return msgspec.json.encode(register(decoded, seed))


def register(reference: Reference, seed: int) -> Registered:
    """Build everything once and write down what the processes need."""
    faults: list[str] = []
    workload = build_workload(reference, faults)
    if workload is None:
        return Registered(faults=tuple(faults))
    # What the actor or a learner lacks to be one; before, nothing of them can be called.
    if amiss := [*broken(workload.actor, Actor, fired(workload, ACTORS)), *unlike(workload)]:
        return Registered(faults=(*faults, *amiss))
    if unlike_numbers := [*no_numbers(workload)]:
        return Registered(faults=(*faults, *unlike_numbers))
    unusable = _declaration_faults(workload)
    faults += [fault for fault in unusable if fault not in faults]
    faults += weight_faults(workload.weight)
    if abs(found := workload.priority) > _MOST_PRIORITY:
        bounds = f"{-_MOST_PRIORITY} and {_MOST_PRIORITY}"
        faults.append(f"priority must be within {bounds}, not {found}")
    keys = _attempt(faults, "the actor's data keys", lambda: _data_keys(workload, faults))
    module = _attempt(faults, "the policy", lambda: _module(workload, seed, faults))
    if unusable or keys is None:
        return Registered(faults=tuple(faults))
    if workload.actor.policies:
        faults += table_faults(workload)
    faults += [*_across_rounds(workload), *_named_twice(workload.actor)]
    parts = parts_of_data(workload)
    data = examined(workload.data, reference.folder, keys, faults, parts)
    plan = _draft(workload, reference, seed, keys, data)
    servers = _attempt(faults, "the servers", lambda: servers_of(workload, faults)) or ()
    shares = workload.actor.shares_slots and bool(servers)
    plan = msgspec.structs.replace(plan, servers=servers, shares_slots=shares)
    modules = {plan.learner: module}
    for each in plan.beside:
        build = partial(workload.actor.seat(each.learner).build_module, each.seed)
        modules[each.learner] = _attempt(faults, f"the policy for {each.learner}", build)
    for name, network in modules.items():
        check = partial(learner_faults, workload, plan.of(name), network)
        faults += _attempt(faults, f"the {name}", check) or []
    if not faults:
        done = _with_learners(workload, plan, modules, faults)
        if done is not None:
            done = msgspec.structs.replace(done, code=imported(reference.folder))
        resolved = resolved_settings(reference, workload)
        return Registered(
            done, tuple(faults), settings_of_workload(reference), resolved, versions()
        )
    return Registered(plan, tuple(faults))


def _with_learners(
    workload: Workload, plan: Plan, modules: Mapping[str, Any], faults: list[str]
) -> Plan | None:
    """The plan with what all learners publish; the first comes last, as actors may read others."""
    found: Plan | None = plan
    for name in (*(each.learner for each in plan.beside), plan.learner):
        if found is not None and name == plan.learner and _reads_weights(workload):
            check = partial(_policy_faults, workload, found, modules[name])
            faults += _attempt(faults, "the policy", check) or []
        if found is not None:
            add = partial(with_learner, workload, name, modules[name], found)
            found = _attempt(faults, f"the {name}", add)
    return found


def _attempt(faults: list[str], what: str, build: Callable[[], T]) -> T | None:
    try:
        return build()
    except Refused as refused:
        faults += [fault for fault in refused.faults if fault not in faults]
    except Exception as error:
        faults.append(f"{what} cannot be built: {last_lines(error)}")
    return None


def _declaration_faults(workload: Workload) -> list[str]:
    counts = {
        "envs": workload.actor.envs,
        "steps": workload.steps,
    }
    faults: list[str] = []
    replicas = _attempt(faults, "the number of learners", lambda: workload.replica_counts) or {}
    by_name = isinstance(workload.replicas, Mapping)
    counts |= {f"learners[{n!r}]" if by_name else "learners": each for n, each in replicas.items()}
    _attempt(faults, "the number of actors", lambda: workload.scaling)
    faults += [
        f"{name} must be at least 1, not {value}" for name, value in counts.items() if value < 1
    ]
    if workload.total_steps == workload.total_updates == 0:
        faults.append(UNLIMITED)
    if not isinstance(workload.data, Mapping):
        faults.append(f'data={workload.data!r}: name each data set: data={{"demos": Rows(...)}}')
    elif not faults and workload.scaling.most == 0:
        faults += _without_actors(workload)
    faults += [
        f"{name} must not be negative, but is {value}"
        for name in ("capacity", "total_steps", "total_updates", "evaluate_every")
        if (value := getattr(workload, name)) < 0
    ]
    if workload.on_full not in get_args(OnFull):
        known = get_args(OnFull)
        hint = closest(workload.on_full, known) or f": use {' or '.join(known)}"
        faults.append(f"on_full is {workload.on_full!r}{hint}")
    if not 1 <= (episodes := workload.evaluation_episodes) <= MOST_EPISODES:
        faults.append(f"evaluation_episodes must be within 1 and {MOST_EPISODES}, not {episodes}")
    in_table = EVALUATION in workload.triggers
    if in_table and workload.evaluate_every:
        faults.append(
            f"evaluate_every={workload.evaluate_every}, and the table has {EVALUATION!r}: leave "
            "out one of them"
        )
    lacks = [name for name in _PLAYS if not own(workload.actor, Actor, name)]
    if (in_table or workload.evaluate_every) and lacks:
        faults.append(
            f"{type(workload.actor).__name__} cannot be evaluated, as it has no "
            f"{', '.join(lacks)}: derive it from RolloutActor, or set evaluate_every=0"
        )
    if workload.checkpoint not in (known := get_args(CheckpointSetting)):
        hint = closest(workload.checkpoint, known) or f": use {' or '.join(known)}"
        faults.append(f"checkpoint is {workload.checkpoint!r}{hint}")
    faults += [
        fault
        for learner in workload.every_learner.values()
        for key in published(learner)
        for fault in key.faults()
    ]
    if _attempt(faults, "the device", lambda: read(workload.device)) is not None:
        faults += unknown("device", workload.device, workload.every_learner)
    faults += unknown("learners", workload.replicas, workload.every_learner)
    faults += policy_faults(workload)
    faults += _reading_faults(workload)
    return [*faults, *no_triggers(workload.triggers)]


def _reading_faults(workload: Workload) -> Iterator[str]:
    """What is wrong with the objects that the actor reads."""
    who, reads = type(workload.actor).__name__, workload.actor.reads
    if isinstance(reads, str):
        yield f"{who} reads a text, not names: write reads=({reads!r},)"
        return
    learners = workload.every_learner
    first = next(iter(learners))
    for name in reads:
        role, _, short = name.rpartition("/")
        learner = learners.get(role or first)
        if learner is None and role in workload.actor.policies:
            continue  # its lack has been told
        if learner is None:
            near = closest(role, [*learners])
            yield f"{who} reads {name!r}, but there is no learner {role!r}{near}"
        elif short == MODEL_PARAM and role in ("", first):
            yield f"{who} reads {name!r}, the weights, which it has anyway: leave it out of reads"
        elif short != MODEL_PARAM and short not in (known := _names(learner)):
            yield (
                f"{who} reads {name!r}, which {type(learner).__name__} does not publish"
                f"{closest(short, known)}: add ObjectKey({short!r}) to its objects, and publish a "
                "first value in setup"
            )
    if len({full_name(name, first) for name in reads}) < len(reads):
        yield f"{who} reads an object twice ({', '.join(reads)}): name each once"
    yield from _past_faults(workload.actor, first)


def _past_faults(actor: Actor, first: str) -> Iterator[str]:
    """What is wrong with the past versions that it wants."""
    who, history, every = type(actor).__name__, actor.history, actor.every
    if not 0 <= history <= MOST_PAST:
        yield (
            f"{who}.history must be within 0 and {MOST_PAST}, as many past versions as the model "
            f"block holds, not {history}: keep fewer of them, with a larger every"
        )
    if every < 1:
        yield f"{who}.every must be at least 1, not {every}"
    elif every > 1 and not history:
        yield f"{who}.every is {every}, but no past version is kept: set history, or leave it out"
    for name in actor.past_of:
        if name == first or f"{name}/{MODEL_PARAM}" not in actor.reads:
            yield (
                f"{who}.past_of has {name!r}: name learners there, beside the first, whose weights "
                "it reads, as reads=('NAME/model_param',)"
            )
        elif not history:
            yield f"{who}.past_of has {name!r}, and no past version is kept: set history, e.g. 8"


def _across_rounds(workload: Workload) -> Iterator[str]:
    """Rows that are handed over together, though the actor jumps between two rounds of them."""
    jumps = [f"{ACTORS}.{name}" for name in workload.actor.jumps]
    if not (fired := [target for target in jumps if target in workload.triggers]):
        return
    steps = workload.steps
    for target, trigger in workload.triggers.items():
        for demand in (part.demand for part in trigger.parts() if part.demand is not None):
            where = f"triggers[{target!r}]: {fired[0]} may begin each round in another episode, "
            if demand.episodes:
                yield f"{where}so whole ones are not there: leave out Episodes, claim size={steps}"
            elif isinstance(demand.size, int) and demand.size > 0 and steps % demand.size:
                yield (
                    f"{where}and size={demand.size} rows are of several rounds of {steps} steps: "
                    f"set size={steps}, or a part of it that divides it"
                )


def _names(learner: Learner) -> list[str]:
    return [key.name for key in published(learner)]


def _without_actors(workload: Workload) -> Iterator[str]:
    if not workload.data:
        yield (
            "actors=0, and there is no data to learn from: raise actors, or give the workload "
            'data={"demos": Rows("demos.npz")}'
        )
    if not workload.total_updates:
        yield (
            "actors=0 makes no environment steps, so total_steps never ends the run: say "
            "total_updates, the number of updates"
        )


def _data_keys(workload: Workload, faults: list[str]) -> tuple[DataKey, ...]:
    actor = workload.actor
    written = {key.name: key for key in actor.data_keys()}
    if actor.changeable and not actor.parts and CONFIGURATION_KEY not in written:
        # Its process adds this, as it knows with which call rows were written.
        written[CONFIGURATION_KEY] = DataKey(CONFIGURATION_KEY, (), "int32")
    declared = tuple(workload.data_keys) or tuple(written.values())
    faults += [fault for key in declared for fault in key.faults()]
    for key in declared:
        theirs = written.get(key.name)
        if theirs is None:
            faults.append(
                f"data key {key.name!r} is not written: the actor writes {', '.join(written)}"
            )
        elif (key.shape, key.dtype) != (theirs.shape, theirs.dtype):
            faults.append(
                f"data key {key.name!r} is declared as {key.dtype}{list(key.shape)}, but the actor "
                f"writes {theirs.dtype}{list(theirs.shape)}: declare that, or leave data_keys out"
            )
    # Beside the version that every row has: those of what actors read of other learners.
    others = read_learners(actor.reads, next(iter(workload.every_learner)))
    return (*declared, *(DataKey(OTHER_VERSIONS + name, (), "int64", 1, False) for name in others))


def _module(workload: Workload, seed: int, faults: list[str]) -> Any:
    module = workload.actor.build_module(seed)
    if not _reads_weights(workload):  # else their sizes are not known yet
        faults += _policy_faults(workload, None, module)
    return module


def _reads_weights(workload: Workload) -> bool:
    """Whether actors read the weights of a learner beside the one whose they act with."""
    return any(name.endswith(f"/{MODEL_PARAM}") for name in workload.actor.reads)


def _policy_faults(workload: Workload, plan: Plan | None, module: Any) -> Iterable[str]:
    """What is wrong with the policy; ``plan`` has the sizes of the weights that it reads."""
    actor, known = workload.actor, dict[str, ObjectKey | ArraySpec]()
    for name, learner in workload.every_learner.items():
        known |= {f"{name}/{key.name}": key for key in published(learner)}
        arrays = plan.of(name).objects[0].arrays if plan else ()
        known |= {f"{name}/{MODEL_PARAM}": array for array in arrays if array.name == PARAMS}
    first = next(iter(workload.every_learner))
    # What it reads has no value yet. Ones divide where zeros would not.
    read = ((name, known.get(full_name(name, first))) for name in actor.reads)
    objects = {name: np.ones(key.shape, key.dtype) for name, key in read if key is not None}
    versions = {full_name(name, first).partition("/")[0]: -1 for name in actor.reads}
    params = _begun(module) if actor.history else None  # else nobody asks for them
    pasts_of: dict[str, tuple[Bound, ...]] = dict.fromkeys(actor.past_of, ())
    actor.bound = Bound(-1, params, objects, versions, history=actor.history, pasts_of=pasts_of)
    return actor.faults(module)


def _begun(module: Any) -> NDArray[np.float32] | None:
    """The weights that a network begins with, as a vector; None if it is no network of torch."""
    if (found := sys.modules.get("torch")) is None or not isinstance(module, found.nn.Module):
        return None
    from artos.policies.flat import named_tensors  # noqa: PLC0415  # others do without torch

    parts = [each.detach().float().numpy().ravel() for each in named_tensors(module).values()]
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def _draft(
    workload: Workload,
    reference: Reference,
    seed: int,
    keys: Sequence[DataKey],
    data: tuple[DataSet, ...],
) -> Plan:
    actor, declared = workload.actor, workload.actor.declared
    # Objects that the workload, its triggers or its scaling policy read.
    wanted = [key.name for key in workload.object_keys]
    wanted += [key for trigger in workload.triggers.values() for key in trigger.objects_read()]
    wanted += getattr(workload.scaling, "objects", ())
    first, *others = workload.every_learner.items()
    replicas = workload.replica_counts
    return Plan(
        reference=reference,
        name=workload.name,
        env=actor.env,
        seed=seed,
        actors=workload.scaling.most,
        envs=actor.envs,
        steps=workload.steps,
        capacity=workload.capacity,
        on_full=workload.on_full,
        total_steps=workload.total_steps if workload.scaling.most else 0,
        total_updates=workload.total_updates,
        checkpoint=workload.checkpoint,
        data_keys=tuple(keys),
        objects=objects(workload, first[0], (), 1),
        wanted=tuple(dict.fromkeys(wanted)),
        layout=(),
        triggers={target: trigger.encode() for target, trigger in workload.triggers.items()},
        methods={
            ACTORS: methods(actor),
            **{name: methods(learner) for name, learner in workload.every_learner.items()},
        },
        non_publishing=tuple(first[1].non_publishing),
        env_spec=msgspec.to_builtins(actor.spec) if actor.spec is not None else None,
        state_keys=tuple(key.name for key in declared.state) if declared else (),
        elastic=workload.elastic,
        evaluate_every=workload.evaluate_every,
        evaluation_episodes=workload.evaluation_episodes,
        scaling=workload.scaling,
        weight=workload.weight,
        priority=workload.priority,
        device=workload.devices[first[0]],
        data=data,
        changeable=known_kinds(first[1], first[1].changeable),
        replicas=replicas[first[0]],
        learner=first[0],
        beside=tuple(
            Beside(
                name,
                seed_of(seed, *_LEARNERS, number),
                objects(workload, name, (), 1),
                non_publishing=tuple(learner.non_publishing),
                changeable=known_kinds(learner, learner.changeable),
                replicas=replicas[name],
            )
            for number, (name, learner) in enumerate(others)
        ),
        settable=(*_of_environment(actor), *known_kinds(actor, actor.changeable)),
        parts=dict(actor.parts),
    )


def _of_environment(actor: Actor) -> tuple[Changeable, ...]:
    """What its environment lets be set."""
    return actor.spec.settable if actor.spec is not None else ()


def _named_twice(actor: Actor) -> Iterator[str]:
    """Settings of the actor that its environment has, too: which of them would be meant?"""
    who, there = type(actor).__name__, {each.name for each in _of_environment(actor)}
    for name in (each.name for each in actor.changeable if each.name in there):
        yield f"{who}.changeable names {name!r}, as its environment does: call it something else"


def main() -> int:
    """Register what the command line names."""
    end_with_parent()
    answer = os.dup(1)
    os.dup2(2, 1)  # C code prints too, and must not mix with the answer
    with os.fdopen(answer, "wb") as out:
        tell(out)
        out.write(register_text(sys.argv[1], int(sys.argv[2])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
