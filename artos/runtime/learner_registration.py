"""The learners of a workload as registration finds them: what is wrong, and what they publish."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from artos.buffer.model_block import ObjectSpec
from artos.errors import BadObject, Refused
from artos.learners.context import LearnerContext
from artos.learners.publisher import UNSAID, Publisher, published
from artos.runs.plan import Plan
from artos.runtime.other_learners import first_peer
from artos.runtime.replicable import replica_faults
from artos.specs.configuration import MAX_LAG
from artos.specs.contracts import Learner, broken
from artos.specs.devices import CPU, POOL
from artos.specs.keys import (
    EVALUATION,
    MODEL_PARAM,
    PARAMS,
    READS,
    VALUE,
    ArraySpec,
    full_name,
    objects_of,
)
from artos.specs.members import LEARNER, NOT_LEARNERS, NOT_ROLES, ROLE_NAME
from artos.specs.workload import Workload
from artos.system.usable_cpus import usable_cpus


def fired(workload: Workload, role: str) -> list[str]:
    """The methods of a role that the table of triggers names."""
    targets = (target.partition(".") for target in workload.triggers)
    return [method for name, _, method in targets if name == role]


def unlike(workload: Workload) -> Iterator[str]:
    """What keeps the workload from having these learners."""
    others = workload.learners
    if not isinstance(others, Mapping):
        yield (f'learners={others!r}: name each of them: learners={{"world_model": WorldModel()}}')
        return
    if not workload.every_learner:
        yield "nobody learns: give the workload a learner"
    for name in others:
        if not (isinstance(name, str) and ROLE_NAME.fullmatch(name)):
            yield (
                f"learners[{name!r}]: call it by letters, digits, - and _, a letter first, as the "
                "table, journal and logs call it so"
            )
        elif name in NOT_LEARNERS or NOT_ROLES.fullmatch(name):
            who = "the table calls" if name in NOT_LEARNERS else "logs call"
            yield f"learners[{name!r}]: {who} something else so: choose another name"
        elif name == LEARNER and workload.learner is not None:
            yield (
                f"two roles are called {name!r}: what is given as learner= is called so; give "
                "the one in learners another name"
            )
    for name, learner in workload.every_learner.items():
        yield from broken(learner, Learner, fired(workload, str(name)))
        if "silent" in dir(learner):
            yield f"the {name}'s `silent` is called `non_publishing` now: rename it"


def objects(
    workload: Workload, name: str, weights: Sequence[ArraySpec], readers: int
) -> tuple[ObjectSpec, ...]:
    """The weights with what actors read, and a learner's objects as the supervisor reads them."""
    first = next(iter(workload.every_learner))
    others, actor = published(workload.every_learner[name]), workload.actor
    known = {full_name(key.name, name): key for key in others}
    # A value that actors read has the slot and the version of the weights, so they never mix.
    read = [
        ArraySpec(READS + each, key.shape, key.dtype)
        for each in actor.reads
        if (key := known.get(full_name(each, first))) is not None
    ]
    past = (actor.history, actor.every) if name in (first, *actor.past_of) else (0, 1)
    return (
        ObjectSpec.sized(MODEL_PARAM, (*weights, *read), readers, *past),
        *(ObjectSpec.sized(k.name, (ArraySpec(VALUE, k.shape, k.dtype),), 1) for k in others),
    )


def learner_faults(workload: Workload, plan: Plan, module: Any) -> list[str]:
    """Everything that is wrong with the learner that ``plan`` is of; ``module`` is its network."""
    learner = workload.every_learner[plan.learner]
    who, there = type(learner).__name__, {key.name for key in plan.data_keys}
    wanted = workload.devices[plan.learner]
    triggers = {
        target: trigger
        for target, trigger in workload.triggers.items()
        if target.startswith(f"{plan.learner}.")
    }
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
    if plan.learner in workload.learners and any(c.name == MAX_LAG for c in learner.changeable):
        found.append(
            f"{who}.changeable names {MAX_LAG!r}, as the bound of its triggers is called: call it "
            "something else"
        )
    if not learner.takes_episodes:
        found += [
            f"triggers[{target!r}] hands over whole episodes, and {who} learns from rounds or from "
            "drawn rows: leave out sample=Episodes(n), or write one that takes an EpisodeBatch"
            for target, trigger in triggers.items()
            if trigger.hands_over_episodes
        ]
    relabels = any(t.draw and getattr(t.draw.pattern, "her", 0) for t in triggers.values())
    if relabels:
        found += _goal_faults(workload, plan)
    if plan.replicas > 1:
        found += replica_faults(plan, learner, triggers, wanted)
    if device := [*learner.device_faults(wanted)]:
        found += device
    elif wanted == POOL:
        from artos.runtime.leasable import pool_faults  # noqa: PLC0415  # others lease nothing

        found += pool_faults(plan.replicas, plan.replicas_setting)
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


def with_learner(workload: Workload, name: str, module: Any, plan: Plan) -> Plan:
    """The plan with what this learner, which is set up for it, has in its versions."""
    learner, own = workload.every_learner[name], plan.of(name)
    device = learner.device_for(workload.devices[name], module)
    computes_on_cpu = device == CPU
    if device == POOL:
        from artos.learners.device import on_cpu  # noqa: PLC0415  # others do without torch

        computes_on_cpu = on_cpu(device)
    cores = max(1, len(usable_cpus()) // own.replicas) if computes_on_cpu else 1
    threads = learner.threads(module, cores)
    # Replicas with different numbers of threads would add up in different orders.
    follow = threads > 1 and learner.threads_follow and own.replicas == 1
    publish = Publisher(published(learner))
    learner.setup(LearnerContext(own, module, own.seed, threads, publish=publish))
    read = objects_of(workload.actor.reads, name, plan.learner)
    if unsaid := [each for each in read if each not in publish.made and each != MODEL_PARAM]:
        raise Refused([str(BadObject(each, UNSAID)) for each in unsaid])
    live = learner.live()
    arrays = [
        # Tensors have dtypes of torch; a spec has NumPy's name.
        ArraySpec(name, tuple(array.shape), str(array.dtype).removeprefix("torch."))
        for name, array in live.items()
    ]
    # Checkpoints hold weights by their names: without names, as the vector that they are.
    layout = learner.layout() or tuple((a.name, a.shape) for a in arrays if a.name == PARAMS)
    params = np.asarray(live.get(PARAMS, ()))
    if len(wrong := np.flatnonzero(~np.isfinite(params))):
        stops = np.cumsum([math.prod(shape) for _, shape in layout])
        number = int(np.searchsorted(stops, wrong[0], "right"))
        raise Refused([_NOT_FINITE.format(layout[number][0], params[wrong[0]])])
    peers = sum(plan.replica_counts.values()) if plan.beside else 0
    found = {
        "objects": objects(workload, name, arrays, first_peer(plan) + peers),
        "layout": layout,
        "threads": threads,
        "threads_follow": follow,
        "device": device,
    }
    if name != plan.learner:
        beside = tuple(
            msgspec.structs.replace(each, **found) if each.learner == name else each
            for each in plan.beside
        )
        return msgspec.structs.replace(plan, beside=beside)
    seen = workload.actor.seen(module)
    doubts = (*seen.doubts, *_of_evaluations(workload), *workload.doubts)
    return msgspec.structs.replace(plan, **found, networks=seen.networks, doubts=doubts)


_NOT_FINITE = (
    "{} begins with {}: weights and floating-point buffers go to the actors with each version, so "
    "each of them is finite; let a mask be a buffer of bools"
)


def _of_evaluations(workload: Workload) -> Iterator[str]:
    evaluates = workload.evaluate_every or EVALUATION in workload.triggers
    if not evaluates and (episodes := workload.evaluation_episodes) != Workload.evaluation_episodes:
        yield (
            f"evaluation_episodes={episodes} has no effect: add evaluate_every=..., or leave it out"
        )
    if workload.actor.history and evaluates:
        yield (
            "evaluations on the way have no past versions: where actors have past(k), it is the "
            "version that is played"
        )
