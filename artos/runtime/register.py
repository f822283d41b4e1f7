"""Registration: turns a reference into a plan, or into every reason why it cannot be one.

Runs user code (it builds the environment, the policy and the learner once), so the daemons have it
done by a process of its own: ``python -m artos.runtime.register REFERENCE_JSON``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from artos.buffer.model_block import ObjectSpec
from artos.errors import ArtosError, Refused
from artos.plan import Plan, Reference
from artos.runtime.reference import last_lines, load_workload
from artos.spec import ArraySpec, DataKey, Workload


class Registered(msgspec.Struct):
    """The answer: a plan, or faults."""

    plan: Plan | None = None
    faults: tuple[str, ...] = ()


def register(reference: Reference, seed: int) -> Plan:
    """Build everything once and write down what the processes need.

    Raises:
        Refused: all faults at once.
    """
    workload = load_workload(reference)
    faults = _number_faults(workload)
    if faults:
        raise Refused(faults)
    keys, key_faults = _data_keys(workload)
    module, policy_faults = _module(workload, seed)
    if key_faults or policy_faults:
        raise Refused([*key_faults, *policy_faults])
    return _with_learner(_draft(workload, reference, seed, keys), workload, module)


def _number_faults(workload: Workload) -> list[str]:
    counts = {
        "actors": workload.actors,
        "envs": workload.actor.envs,
        "steps": workload.steps,
        "total_steps": workload.total_steps,
    }
    faults = [
        f"{name} must be at least 1, not {value}" for name, value in counts.items() if value < 1
    ]
    if workload.capacity < 0:
        faults.append(f"capacity must not be negative, but is {workload.capacity}")
    return faults


def _data_keys(workload: Workload) -> tuple[tuple[DataKey, ...], list[str]]:
    written = {key.name: key for key in workload.actor.data_keys()}
    declared = tuple(workload.data_keys) or tuple(written.values())
    faults = [fault for key in declared for fault in key.faults()]
    for key in declared:
        theirs = written.get(key.name)
        if theirs is None:
            faults.append(
                f"data key {key.name!r} is written by nobody: the actor writes {', '.join(written)}"
            )
        elif (key.shape, key.dtype) != (theirs.shape, theirs.dtype):
            faults.append(
                f"data key {key.name!r} is declared as {key.dtype}{list(key.shape)}, but the actor "
                f"writes {theirs.dtype}{list(theirs.shape)}: declare that, or leave data_keys out"
            )
    return declared, faults


def _module(workload: Workload, seed: int) -> tuple[Any, list[str]]:
    actor: Any = workload.actor
    try:
        faults = actor.faults() if hasattr(actor, "faults") else []
        return actor.build_module(seed), faults
    except Refused:
        raise
    except Exception as error:
        return None, [f"the policy does not build or act: {last_lines(error)}"]


def _draft(workload: Workload, reference: Reference, seed: int, keys: Sequence[DataKey]) -> Plan:
    actor: Any = workload.actor
    spec = getattr(actor, "spec", None)
    return Plan(
        reference=reference,
        name=workload.name,
        env=str(getattr(actor, "env", "")),
        seed=seed,
        actors=workload.actors,
        envs=actor.envs,
        steps=workload.steps,
        capacity=workload.capacity,
        on_full=workload.on_full,
        total_steps=workload.total_steps,
        data_keys=tuple(keys),
        objects=(),
        layout=(),
        triggers={target: trigger.encode() for target, trigger in workload.triggers.items()},
        methods={"actors": _methods(actor), "learner": _methods(workload.learner)},
        env_spec=msgspec.to_builtins(spec) if spec is not None else None,
    )


def _methods(role: Any) -> tuple[str, ...]:
    kind = type(role)
    return tuple(n for n in dir(kind) if not n.startswith("_") and callable(getattr(kind, n)))


def _with_learner(plan: Plan, workload: Workload, module: Any) -> Plan:
    from artos.learners.torch_learner import LearnerContext  # noqa: PLC0415

    learner: Any = workload.learner
    faults = learner.faults(plan)
    if faults:
        raise Refused(faults)
    cores = len(os.sched_getaffinity(0))
    threads = learner.threads(module, cores)
    learner.setup(LearnerContext(plan, module, plan.seed, threads))
    arrays = [ArraySpec(n, a.shape, a.dtype.name) for n, a in learner.live().items()]
    objects = tuple(ObjectSpec.sized(k.name, arrays, plan.actors + 1) for k in workload.object_keys)
    return msgspec.structs.replace(plan, objects=objects, layout=learner.layout(), threads=threads)


def main() -> int:
    """Read a reference and a seed from the command line, answer with JSON on standard output."""
    reference = msgspec.json.decode(sys.argv[1], type=Reference)
    answer = sys.stdout
    sys.stdout = sys.stderr  # whatever user code prints must not mix with the answer
    try:
        result = Registered(plan=register(reference, int(sys.argv[2])))
    except Refused as refused:
        result = Registered(faults=refused.faults)
    except ArtosError as error:
        result = Registered(faults=(str(error),))
    except Exception as error:
        result = Registered(faults=(last_lines(error),))
    answer.write(msgspec.json.encode(result).decode())
    answer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
