"""Registration: turns a reference into a plan, or into all reasons why it cannot be one.

It runs user code (it builds the environment, the policy and the learner once), so it has a process
of its own: ``python -P -m artos.runtime.register REFERENCE_JSON SEED``. Standard output has a line
of JSON whenever code of the user's that may never return is called or has returned (``UnderWay``),
and the answer as the last one; whatever user code prints goes to standard error.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, get_args

import msgspec
import numpy as np

from artos.buffer.model_block import MOST_PAST, ObjectSpec
from artos.errors import BadObject, Refused
from artos.learners.context import LearnerContext
from artos.learners.publisher import UNSAID, Publisher, published
from artos.runs.data_sets import examined
from artos.runs.loader import (
    UNLIMITED,
    build_workload,
    last_lines,
    settings_of_workload,
)
from artos.runs.plan import CPU, POOL, Plan
from artos.runtime.member import MOST_EPISODES
from artos.runtime.replicable import replica_faults
from artos.runtime.resolved import resolved_settings, versions
from artos.specs.bound import Bound
from artos.specs.contracts import Actor, Learner, broken, methods, own
from artos.specs.data import DataSet
from artos.specs.keys import (
    EVALUATION,
    MODEL_PARAM,
    PARAMS,
    READS,
    VALUE,
    ArraySpec,
    CheckpointSetting,
    DataKey,
    OnFull,
)
from artos.specs.reference import Reference
from artos.specs.settings import Setting
from artos.specs.workload import Workload
from artos.system.child import end_with_parent
from artos.system.closest import closest
from artos.system.under_way import tell
from artos.system.usable_cpus import usable_cpus

T = TypeVar("T")
_PLAYS = ("env", "spec", "build_module", "make_policy")
"""What an evaluation needs of an actor."""
_MOST_PRIORITY = 1000


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
    fired: dict[str, list[str]] = {"actors": [], "learner": []}
    for target in workload.triggers:
        role, _, method = target.partition(".")
        fired.get(role, []).append(method)
    # What the actor or the learner lacks to be one; before, nothing of them can be called.
    amiss = [*broken(workload.actor, Actor, fired["actors"])]
    amiss += broken(workload.learner, Learner, fired["learner"])
    if "silent" in dir(workload.learner):
        amiss.append("the learner's `silent` is called `non_publishing` now: rename it")
    if amiss:
        return Registered(faults=(*faults, *amiss))
    unusable = _declaration_faults(workload)
    faults += [fault for fault in unusable if fault not in faults]
    if not (workload.weight > 0 and math.isfinite(workload.weight)):
        faults.append(f"weight must be positive, 1 is usual, not {workload.weight:g}")
    if abs(found := workload.priority) > _MOST_PRIORITY:
        bounds = f"{-_MOST_PRIORITY} and {_MOST_PRIORITY}"
        faults.append(f"priority must be within {bounds}, not {found}")
    keys = _attempt(faults, "the actor's data keys", lambda: _data_keys(workload, faults))
    module = _attempt(faults, "the policy", lambda: _module(workload, seed, faults))
    if unusable or keys is None:
        return Registered(faults=tuple(faults))
    data = examined(workload.data, reference.folder, keys, faults)
    plan = _draft(workload, reference, seed, keys, data)
    faults += _attempt(faults, "the learner", lambda: _learner_faults(workload, plan, module)) or []
    if not faults:
        done = _attempt(faults, "the learner", lambda: _with_learner(plan, workload, module))
        resolved = resolved_settings(reference, workload)
        return Registered(
            done, tuple(faults), settings_of_workload(reference), resolved, versions()
        )
    return Registered(plan, tuple(faults))


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
        "learners": workload.replicas,
    }
    faults: list[str] = []
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
    faults += [fault for key in published(workload) for fault in key.faults()]
    faults += _reading_faults(workload)
    faults += [
        f"triggers[{target!r}] is a {type(trigger).__name__}, not a Trigger"
        for target, trigger in workload.triggers.items()
        if not hasattr(trigger, "encode")
    ]
    return faults


def _reading_faults(workload: Workload) -> Iterator[str]:
    """What is wrong with the objects that the actor reads."""
    who, reads = type(workload.actor).__name__, workload.actor.reads
    if isinstance(reads, str):
        yield f"{who} reads a text, not names: write reads=({reads!r},)"
        return
    known = [key.name for key in published(workload)]
    for name in reads:
        if name == MODEL_PARAM:
            yield f"{who} reads {name!r}, the weights, which it has anyway: leave it out of reads"
        elif name not in known:
            learner = type(workload.learner).__name__
            yield (
                f"{who} reads {name!r}, which {learner} does not publish{closest(name, known)}: "
                f"add ObjectKey({name!r}) to its objects, and publish a first value in setup"
            )
    if len(set(reads)) < len(reads):
        yield f"{who} reads an object twice ({', '.join(reads)}): name each once"
    history, every = workload.actor.history, workload.actor.every
    if not 0 <= history <= MOST_PAST:
        yield (
            f"{who}.history must be within 0 and {MOST_PAST}, as many past versions as the model "
            f"block holds, not {history}: keep fewer of them, with a larger every"
        )
    if every < 1:
        yield f"{who}.every must be at least 1, not {every}"
    elif every > 1 and not history:
        yield f"{who}.every is {every}, but no past version is kept: set history, or leave it out"


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
    written = {key.name: key for key in workload.actor.data_keys()}
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
    return declared


def _module(workload: Workload, seed: int, faults: list[str]) -> Any:
    actor, known = workload.actor, {key.name: key for key in published(workload)}
    module = actor.build_module(seed)
    # What it reads has no value yet. Ones divide where zeros would not.
    objects = {n: np.ones(known[n].shape, known[n].dtype) for n in actor.reads if n in known}
    actor.bound = Bound(objects=objects)
    faults += actor.faults(module)
    return module


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
        objects=_objects(workload, (), 1),
        wanted=tuple(dict.fromkeys(wanted)),
        layout=(),
        triggers={target: trigger.encode() for target, trigger in workload.triggers.items()},
        methods={"actors": methods(actor), "learner": methods(workload.learner)},
        non_publishing=tuple(workload.learner.non_publishing),
        env_spec=msgspec.to_builtins(actor.spec) if actor.spec is not None else None,
        state_keys=tuple(key.name for key in declared.state) if declared else (),
        elastic=workload.elastic,
        evaluate_every=workload.evaluate_every,
        evaluation_episodes=workload.evaluation_episodes,
        scaling=workload.scaling,
        weight=workload.weight,
        priority=workload.priority,
        data=data,
        changeable=tuple(workload.learner.changeable),
        replicas=workload.replicas,
    )


def _objects(
    workload: Workload, weights: Sequence[ArraySpec], readers: int
) -> tuple[ObjectSpec, ...]:
    """The weights with what actors read, and the learner's objects as the supervisor reads them."""
    others, reads = published(workload), workload.actor.reads
    # A value that actors read has the slot and the version of the weights, so they never mix.
    read = [ArraySpec(READS + k.name, k.shape, k.dtype) for k in others if k.name in reads]
    actor = workload.actor
    return (
        ObjectSpec.sized(MODEL_PARAM, (*weights, *read), readers, actor.history, actor.every),
        *(ObjectSpec.sized(k.name, (ArraySpec(VALUE, k.shape, k.dtype),), 1) for k in others),
    )


def _learner_faults(workload: Workload, plan: Plan, module: Any) -> list[str]:
    learner = workload.learner
    who, there = type(learner).__name__, {key.name for key in plan.data_keys}
    found = [
        f"{who} calls {name}(...) of the policy, but {type(module).__name__} has no such method"
        for name in learner.calls
        if module is not None and not callable(getattr(module, name, None))
    ]
    found += [
        f"{who} reads {name!r}, which no row has: the policy must name it among its outputs, or "
        "data_keys must not leave it out"
        for name in learner.reads
        if name not in there
    ]
    found += [
        f"{who}.changeable names {each.name!r}, which is no attribute of it: set it in __init__"
        for each in learner.changeable
        if not hasattr(learner, each.name)
    ]
    if not learner.takes_episodes:
        found += [
            f"triggers[{target!r}] hands over whole episodes, and {who} learns from rounds or from "
            "drawn rows: leave out sample=Episodes(n), or write one that takes an EpisodeBatch"
            for target, trigger in workload.triggers.items()
            if trigger.hands_over_episodes
        ]
    relabels = any(t.draw and getattr(t.draw.pattern, "her", 0) for t in workload.triggers.values())
    if relabels:
        found += _goal_faults(workload, plan)
    if plan.replicas > 1:
        found += replica_faults(workload, plan)
    if device := [*learner.device_faults(workload.device)]:
        found += device
    elif workload.device == POOL:
        from artos.runtime.leasable import pool_faults  # noqa: PLC0415  # others lease nothing

        found += pool_faults(plan.replicas)
    return [*found, *learner.faults(plan)]


def _goal_faults(workload: Workload, plan: Plan) -> list[str]:
    """Why goals cannot be relabelled in what this actor stores."""
    from artos.envs.goal_rewards import goal_faults  # noqa: PLC0415  # few runs have goals

    actor = workload.actor
    if actor.spec is None:
        return ["her relabels goals by what was reached later, and the actor has no environment"]
    found = goal_faults(plan.env, actor.spec, plan.seed)
    if getattr(actor, "clip_rewards", None):
        found.append("her has rewards as the environment pays them: leave clip_rewards out")
    return found


def _with_learner(plan: Plan, workload: Workload, module: Any) -> Plan:
    learner = workload.learner
    device = learner.device_for(workload.device, module)
    computes_on_cpu = device == CPU
    if device == POOL:
        from artos.learners.device import on_cpu  # noqa: PLC0415  # others do without torch

        computes_on_cpu = on_cpu(device)
    cores = max(1, len(usable_cpus()) // plan.replicas) if computes_on_cpu else 1
    threads = learner.threads(module, cores)
    # Replicas with different numbers of threads would add up in different orders.
    follow = threads > 1 and learner.threads_follow and plan.replicas == 1
    publish = Publisher(published(workload))
    learner.setup(LearnerContext(plan, module, plan.seed, threads, publish=publish))
    if unsaid := [name for name in workload.actor.reads if name not in publish.made]:
        raise Refused([str(BadObject(name, UNSAID)) for name in unsaid])
    arrays = [
        # Tensors have dtypes of torch; a spec has NumPy's name.
        ArraySpec(name, tuple(array.shape), str(array.dtype).removeprefix("torch."))
        for name, array in learner.live().items()
    ]
    objects = _objects(workload, arrays, plan.actors + 1)
    # Checkpoints hold weights by their names: without names, as the vector that they are.
    layout = learner.layout() or tuple((a.name, a.shape) for a in arrays if a.name == PARAMS)
    seen = workload.actor.seen(module)
    return msgspec.structs.replace(
        plan, objects=objects, layout=layout, threads=threads, threads_follow=follow,
        device=device, networks=seen.networks, doubts=seen.doubts,
    )  # fmt: skip


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
