"""Weights that a run has saved, for continuing an episode with them in place of the actor's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from artos.buffer.binding import Held
from artos.envs.spec import EnvSpec
from artos.errors import CheckpointFault, NotBranched
from artos.runs import checkpoint, run_config
from artos.runs.checkpoint import PARAMETER, Manifest
from artos.runs.plan import Plan
from artos.specs.keys import PARAMS, ArraySpec, noted_versions, read_as
from artos.system.regular_file import contents
from artos.trained.evaluation import misfits
from artos.trained.record import Config

_SHOWN = 8
_MOST_SENT = 64 << 20
_TOO_LARGE = (
    "the weights of {} take {} MB, and at most {} MB are sent to the node of an actor: without "
    "--with and --best it acts with those that it has"
)
_ALGORITHM = "its weights are those of {}, and this run is {}: name a run of {}"
_NO_ENV = "its config.json says nothing of an environment, and this run has one: name another run"
_NETWORK = "its weights do not fit the policy of this run ({}): name a run with the same network"
_PAST = (
    "actors of this run act with past versions, too, and the best version is kept without: leave "
    "--best out"
)
_REMEMBERS = (
    "the policy of this run is recurrent, and what it remembers means nothing to the weights of "
    "another one: name this run itself"
)


def faults(run: Path, plan: Plan, *, best: bool, own: bool) -> list[str]:
    """Why actors of ``plan`` cannot act with what the run in the folder ``run`` has saved.

    ``own``: it is the run of the plan.
    """
    found: list[str] = []
    try:
        theirs = run_config.read(run, Config)[1].env_spec
        if plan.env_spec is not None:
            ours = msgspec.convert(plan.env_spec, EnvSpec, strict=False)
            found += [_NO_ENV] if theirs is None else misfits(theirs, ours)
    except OSError as error:
        found.append(f"its config.json cannot be read: {error.strerror}")
    except CheckpointFault as fault:
        found.append(fault.why)
    try:
        manifest = checkpoint.read_manifest(checkpoint.kept_in(run, best=best))
    except CheckpointFault as fault:
        found.append(fault.why)
    else:
        if manifest.workload != plan.name:
            found.append(_ALGORITHM.format(manifest.workload, plan.name, plan.name))
        if wrong := _differences(manifest, plan, best=best):
            more = f"; and {len(wrong) - _SHOWN} more" * (len(wrong) > _SHOWN)
            found.append(_NETWORK.format("; ".join(wrong[:_SHOWN]) + more))
    if best and plan.objects[0].history:  # without it no other learner has past versions
        found.append(_PAST)
    if plan.state_keys and not own:
        found.append(_REMEMBERS)
    return [f"run {run}: {fault}" for fault in found]


def _differences(manifest: Manifest, plan: Plan, *, best: bool) -> list[str]:
    """What actors bind, and is not there or otherwise; and parameters that they do not have."""
    ours = {f"{PARAMETER}{name}": _text(shape) for name, shape in plan.layout}
    ours |= {each.name: _text(each.shape, each.dtype) for each in _read_by(plan)}
    for name in plan.read_learners:
        places = _places(name, plan, best=best)
        ours |= {place: _text(each.shape, each.dtype) for place, each in places.items()}
    theirs = {each.name: _text(each.shape, each.dtype) for each in manifest.layout}
    names = {*ours, *(name for name in theirs if name.startswith(PARAMETER))}
    return [
        f"{name} is {theirs.get(name, 'missing')}, here {ours.get(name, 'unknown')}"
        for name in sorted(names)
        if theirs.get(name) != ours.get(name)
    ]


def _text(shape: tuple[int, ...], dtype: str = "float32") -> str:
    return f"{dtype}{list(shape)}"


def _read_by(plan: Plan) -> list[ArraySpec]:
    """What actors read with the weights of the first learner."""
    return [each for each in plan.objects[0].public if each.name != PARAMS]


def _places(learner: str, plan: Plan, *, best: bool) -> Mapping[str, ArraySpec]:
    """What actors bind of a learner beside the first, by the names that a checkpoint has for it."""
    public = plan.of(learner).objects[0].public
    return {
        read_as(each.name, learner) if best else f"{learner}/{each.name}": each for each in public
    }


def read(run: Path, plan: Plan, *, best: bool) -> dict[str, Any]:
    """What an actor of ``plan`` holds that has bound what a run has saved, as ``ActorRole`` has it.

    Raises:
        CheckpointFault: nothing is saved, or it is damaged.
        KeyError: it does not fit: see ``faults``.
    """
    arrays, manifest = checkpoint.load(checkpoint.kept_in(run, best=best))
    newest = {each.name: arrays[each.name] for each in _read_by(plan)}
    parts = [arrays[f"{PARAMETER}{name}"].reshape(-1) for name, _ in plan.layout]
    newest[PARAMS] = np.concatenate(parts)
    pasts = _pasts(arrays, "", plan.objects[0].history)
    noted, others = noted_versions(arrays), dict[str, Any]()
    for name in plan.read_learners:
        places = _places(name, plan, best=best)
        version = noted[name] if best else manifest.learners[name].version
        now = version, {each.name: arrays[place] for place, each in places.items()}
        others[name] = [now, *_pasts(arrays, f"{name}/", plan.of(name).objects[0].history)]
    return {"bound": [(manifest.version, newest), *pasts], "others": others}


class _Sent(msgspec.Struct):
    bound: Held
    others: dict[str, Held]


def to_send(run: Path, plan: Plan, *, best: bool) -> bytes:
    """What ``read`` returns, for an actor on another machine, where ``sent`` returns it again.

    Raises:
        CheckpointFault, KeyError: see ``read``.
        NotBranched: it is too large.
    """
    held = read(run, plan, best=best)
    data = msgspec.msgpack.encode(
        held, enc_hook=lambda array: (array.dtype.str, array.shape, array.tobytes())
    )
    if len(data) > _MOST_SENT:
        raise NotBranched(_TOO_LARGE.format(run, len(data) >> 20, _MOST_SENT >> 20))
    return data


def sent(file: Path) -> dict[str, Any]:
    """What ``to_send`` returned, and is in ``file`` now."""

    def array(_: type, parts: Any) -> Any:
        dtype, shape, data = parts
        return np.frombuffer(bytearray(data), dtype).reshape(shape)  # one that may be written

    return msgspec.structs.asdict(
        msgspec.msgpack.decode(contents(file), type=_Sent, dec_hook=array)
    )


def _pasts(arrays: checkpoint.Arrays, front: str, history: int) -> Held:
    """So many past versions of a learner, from the newest on."""
    return sorted(checkpoint.past_in(arrays, front).items(), reverse=True)[:history]
