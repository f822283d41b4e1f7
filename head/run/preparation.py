"""Prepares what a run begins with: its registration, folder and memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import to_builtins
from msgspec.structs import asdict

from artos.buffer.handed_over import cut, handed_over
from artos.buffer.past_versions import past_versions
from artos.errors import CheckpointFault, Refused
from artos.runs import checkpoint
from artos.runs.checkpoint import Manifest, check_workload
from artos.runs.cleanup import remove_images
from artos.runs.left_rows import LeftRows
from artos.runs.plan import Plan
from artos.runs.run_config import CONFIGURATION, RunConfig
from artos.runs.run_memory import RunMemory, check_space
from artos.runtime.preload import Preloaded
from artos.specs.keys import MODEL_PARAM, ArraySpec
from artos.system.signals import StopRequests
from head.records import provenance
from head.records.run_folder import RunFolder, writing
from head.records.shape import Shape
from head.run import saved_learners, saved_triggers
from head.run.handover import members_in
from head.run.recorder import flattened, lacking_priorities, lacking_rows, named, with_rows
from head.run.request import Request
from head.run.saved_learners import OBJECT
from triggers.registration import Registration, prepare

HostFaults = Callable[[Plan], Sequence[str]]
"""Why the actors of a plan cannot live on this machine."""


def _none(plan: Plan) -> Sequence[str]:
    del plan
    return ()


@dataclass(frozen=True)
class PreparedRun:
    """What a run begins with."""

    registration: Registration
    folder: RunFolder
    node: RunMemory
    before: Manifest | None = None
    """The manifest of a resumed run's checkpoint."""
    states: bytes = b""
    """What the members of a resumed run held; empty if they are set up again."""
    epoch: int = 0
    """On a cluster, which process of the run this is: the n-th that was begun."""


@contextmanager
def begun(
    request: Request,
    requests: StopRequests,
    preloaded: Preloaded | None,
    host_faults: HostFaults = _none,
    *,
    on_nodes: bool = False,
) -> Iterator[PreparedRun]:
    """A new run: register its code, make its folder and memory; the memory is removed at the end.

    ``on_nodes``: its actors, and the servers that answer them, live on other nodes.

    Raises:
        Refused, RunExists, ShmTooSmall: nothing is left behind.
    """
    registration = _registered(request, preloaded, host_faults, on_nodes=on_nodes)
    check_space(registration.plan, beside=_image_bytes(registration.plan, on_nodes=on_nodes))
    with (
        requests.held(),
        _new_folder(request, registration) as folder,
        _node_of(folder, registration) as node,
    ):
        yield PreparedRun(registration, folder, node)


@contextmanager
def resumed(
    request: Request,
    folder: RunFolder,
    requests: StopRequests,
    preloaded: Preloaded | None,
    host_faults: HostFaults = _none,
    *,
    on_nodes: bool = False,
) -> Iterator[PreparedRun]:
    """The same for a run that goes on in ``folder`` from its checkpoint.

    Raises:
        CheckpointFault, Refused: the checkpoint does not fit the code, or the run this machine.
    """
    manifest = checkpoint.read_manifest(folder.checkpoint)
    registration = _registered(request, preloaded, host_faults, on_nodes=on_nodes)
    # One that was killed before it had saved anything counts, too.
    earlier = max(manifest.resumes, len(folder.config.get("resumed", ())))
    registration = registration.resumed(earlier + 1)
    plan, states = registration.plan, b""
    check_workload(folder.checkpoint, manifest, plan.name, plan.env)
    if plan.checkpoint == "all":
        states = checkpoint.load_states(folder.checkpoint, manifest, plan.checksums())
    holding = [*members_in(states)]
    with requests.held(), LeftRows(folder.path) as left:
        remove_images(folder.path)  # after a reboot nothing else finds them
        # Rows in the checkpoint are those that its states belong to.
        there = manifest.rows if plan.keeps_rows and manifest.rows_file is None else ()
        blocks = left.blocks(plan, there)
        check_space(plan, blocks.values(), _image_bytes(plan, on_nodes=on_nodes))
        with RunMemory(plan, folder.path.name, folder.logs, folder.path, blocks) as node:
            try:
                manifest = _restore(folder, node, blocks, goes_on=bool(states))
            except BaseException:
                if blocks:
                    node.leave()
                raise
            anew = saved_triggers.anew(registration.table, manifest.triggers)
            lacks = (*manifest.not_restored, *anew)
            manifest = msgspec.structs.replace(manifest, not_restored=lacks)
            left.give_up()
            # Settings that were changed on resuming also hold the next time.
            resolved = _resolved(request, registration)
            settings = {"settings": resolved.pop("settings"), "deadline": request.deadline}
            settings |= {name: resolved[name] for name in ("device", "devices")}
            # A head names all settings of the run whenever it has it go on: others are meant anew.
            before, now = folder.config.get("settings", {}), settings["settings"]
            others = [name for name in now if now[name] != before.get(name)]
            anew = [*(f"{plan.learner}.{name}" for name in others), *others]
            last, then = folder.configuration, manifest.configuration
            configuration = (last if then is None else last.back_to(then)).without(anew)
            settings |= {CONFIGURATION: to_builtins(configuration)}
            settings["plan"] = to_builtins(Shape.of(plan))
            anew += [name for name in last.settings if name not in configuration.settings]
            # What a replay of the parts before needs.
            resolved |= {"anew": anew, "before": {n: before[n] for n in others if n in before}}
            resolved["rows"] = [block.written for block in node.blocks.values()]
            resolved["past"] = past_versions(node.weights)
            kept = ((name, past_versions(of[MODEL_PARAM])) for name, of in node.beside.items())
            resolved["past_of"] = {name: past for name, past in kept if past}
            resolved["states"] = manifest.states_sha256 if states else ""
            resolved["holding"] = holding
            parts = [*folder.config.get("resumed", ()), resolved]
            with writing(folder.path):
                folder.write_config(folder.config | settings | {"resumed": parts})
                folder.summary.unlink(missing_ok=True)  # of the part before
            yield PreparedRun(registration, folder, node, manifest, states)


def _image_bytes(plan: Plan, *, on_nodes: bool) -> int:
    """Shared memory for images of actors that live here."""
    return 0 if on_nodes else plan.elastic.image_bytes


def _registered(
    request: Request, preloaded: Preloaded | None, host_faults: HostFaults, *, on_nodes: bool
) -> Registration:
    found = prepare(
        request.reference(),
        request.seed,
        preloaded,
        apart=not request.inline,
        deadline=request.deadline,
        host_faults=host_faults,
    )
    return replace(found, plan=msgspec.structs.replace(found.plan, servers_apart=on_nodes))


def _new_folder(request: Request, registration: Registration) -> RunFolder:
    plan = registration.plan
    config = {**request.config(), "algorithm": plan.name, "env": plan.env}
    config["env_spec"] = plan.env_spec  # so that the policy can be loaded without the environment
    config["plan"] = to_builtins(Shape.of(plan))
    config |= _resolved(request, registration)
    if request.run_dir is not None:
        return RunFolder.create(request.run_dir, config)
    root = request.folder / "runs"
    return RunFolder.create_numbered(root, plan.name, plan.env, plan.seed, config)


@contextmanager
def _node_of(folder: RunFolder, registration: Registration) -> Iterator[RunMemory]:
    """The memory of a new run; the folder is discarded if memory is short or the run is refused."""
    try:
        node = RunMemory(registration.plan, folder.path.name, folder.logs, folder.path)
    except BaseException:
        folder.discard()
        raise
    try:
        with node:
            yield node
    except Refused:
        folder.discard()
        raise


def stored_request(
    folder: RunFolder, settings: dict[str, Any], quiet: bool, deadline: float | None = None
) -> Request:
    """The request that the run began with, overridden by these ``settings`` and ``deadline``."""
    stored = msgspec.convert(folder.config, RunConfig)
    return Request(
        stored.workload, stored.settings | settings, stored.seed, folder.path, stored.inline,
        quiet, Path(stored.folder), stored.deadline if deadline is None else deadline,
    )  # fmt: skip


def _resolved(request: Request, registration: Registration) -> dict[str, Any]:
    """What is needed to reproduce the run: all settings, versions, host and origin of the code."""
    return {
        "settings": registration.resolved,
        "device": registration.plan.device,
        "devices": registration.plan.devices,
        "versions": registration.versions,
        "host": provenance.host(),
        "origin": request.origin or provenance.origin(request.folder),
    }


def _restore(
    folder: RunFolder, node: RunMemory, left: Collection[int], *, goes_on: bool
) -> Manifest:
    """Fill the memory from the checkpoint, but for the blocks that were ``left``.

    Unless the books ``go on``, rows that were not handed over to those who are handed rows are
    void, as their steps are not counted: they are sampled again, so each is handed over once.
    Returns the manifest, which says what is restored.
    """
    empty = {a.name: _blank(a) for a in node.plan.objects[0].arrays}
    there = checkpoint.read_manifest(folder.checkpoint)
    saved = there.objects.keys() & node.objects.keys()
    values = {f"{OBJECT}{name}": _blank(node.objects[name].spec.arrays[0]) for name in saved}
    # How many past versions were there depends on when it was saved.
    stored = [each for each in there.layout if checkpoint.PAST.fullmatch(each.name)]
    others = saved_learners.blank(node.plan, there)
    expected = checkpoint.layout_of(named(empty, node.plan) | values | others)
    arrays, manifest = checkpoint.load(folder.checkpoint, (*expected, *stored))
    if not goes_on and (without := manifest.without_states) is not None:
        manifest = msgspec.structs.replace(manifest, **asdict(without))
    first, past = node.plan.learner, checkpoint.past_in(arrays)
    node.restore(first, flattened(arrays, node.plan), manifest.version, past)
    saved_learners.restore(node, manifest, arrays)
    for name in saved:
        node.restore_object(first, name, arrays[f"{OBJECT}{name}"], manifest.objects[name])
    for actor in left:
        block = node.blocks[actor]
        block.recover()  # its writer was killed
        cut(block, manifest.rows[actor])  # what came after the checkpoint
    if node.plan.checkpoint != "all" and not node.plan.keeps_rows:
        return manifest
    try:
        checkpoint.restore_rows(folder.checkpoint, manifest, node.blocks)
        for actor, block in () if goes_on else node.blocks.items():
            # Rows were written to the file after the manifest's were counted: actors went on.
            cut(block, min(handed_over(block), *manifest.rows[actor : actor + 1]))
    except CheckpointFault as error:
        if node.plan.checkpoint == "all":
            raise
        return lacking_rows(manifest, error.why)
    try:
        node.restore_priorities(folder.checkpoint, manifest)
    except CheckpointFault as error:
        if node.plan.checkpoint == "all":
            raise
        for path in node.priorities:
            path.unlink()
        manifest = lacking_priorities(manifest, error.why)
    return with_rows(manifest) if left else manifest


def _blank(spec: ArraySpec) -> Any:
    return np.zeros(spec.shape, spec.dtype)
