"""``artos run``: from a registration to a finished run folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from artos.errors import Refused
from artos.logging_setup import logging_to
from artos.runtime.preloaded import Preloaded
from artos.spec import ArraySpec
from deploy import provenance
from deploy.inline import Inline
from deploy.leftovers import remove_images
from deploy.logged_view import LoggedView
from deploy.node import Node, check_space
from deploy.one_machine import OneMachine
from deploy.recorder import OBJECT, flattened, named
from deploy.registration import Registration, prepare
from deploy.request import Request
from deploy.session import RunMembers, Session
from deploy.signals import StopRequests
from deploy.view import LiveView
from head.records import checkpoint
from head.records.checkpoint import Manifest, check_workload
from head.records.curve import import_ahead
from head.records.durable import write_durably
from head.records.run_folder import RunFolder, writing
from head.status import Summary

_REGISTRATION = "registration"


def registered(request: Request, preloaded: Preloaded | None, *, here: bool = True) -> Registration:
    """The verified plan of what was asked for; ``here``: with actors on this machine.

    Raises:
        Refused: all faults at once.
    """
    reference = request.reference()
    return prepare(
        reference, request.seed, preloaded, apart=not request.inline, deadline=request.deadline,
        here=here,
    )  # fmt: skip


def run(request: Request, preloaded: Preloaded | None = None) -> Summary:
    """Start a new run and see it through; ``preloaded`` is what ``request.preload()`` began.

    Raises:
        Refused, RunExists, ShmTooSmall: before anything was started.
        ArtosError: the run failed; what it learned so far is saved.
        KeyboardInterrupt: stopped before it began, or at once by a second Ctrl-C.
    """
    with StopRequests() as requests, _view(request) as view:
        view.phase(_REGISTRATION)
        if preloaded is not None:
            import_ahead()  # the other process imports, too, and takes longer
        registration = registered(request, preloaded)
        check_space(registration.plan)
        with (
            requests.held(),
            new_folder(request, registration) as folder,
            node_of(folder, registration) as node,
        ):
            return _finished(registration, folder, node, request, requests, view)


def resume(path: Path, settings: dict[str, Any], *, quiet: bool) -> Summary:
    """Continue a run from its checkpoint; ``settings`` (e.g. total_steps) replace stored ones.

    Raises:
        CheckpointFault: nothing to continue, or what is there does not fit.
        RunExists: the run is live.
    """
    with StopRequests() as requests, RunFolder.resume(path) as folder:
        request = stored_request(folder, settings, quiet)
        with request.preload() as preloaded, _view(request) as view:
            view.phase(_REGISTRATION)
            registration, manifest = continued(request, folder, preloaded)
            with requests.held(), restored(request, folder, registration) as node:
                return _finished(registration, folder, node, request, requests, view, manifest)


def continued(
    request: Request, folder: RunFolder, preloaded: Preloaded | None, *, here: bool = True
) -> tuple[Registration, Manifest]:
    """The registration of a run that goes on, and what its checkpoint says about itself.

    Raises:
        CheckpointFault, Refused: it does not fit, or not any more.
    """
    manifest = checkpoint.read_manifest(folder.checkpoint)
    registration = registered(request, preloaded, here=here).resumed(manifest.resumes + 1)
    plan = registration.plan
    check_workload(folder.checkpoint, manifest, plan.name, plan.env)
    check_space(plan)
    return registration, manifest


@contextmanager
def restored(request: Request, folder: RunFolder, registration: Registration) -> Iterator[Node]:
    """The memory of a run that goes on, with its weights as they were saved."""
    remove_images(folder.path)  # if the machine was started anew nobody else finds them
    with Node(registration.plan, folder.path.name, folder.logs) as node:
        _restore(folder, node)
        _store(folder, request, registration)
        yield node


def new_folder(request: Request, registration: Registration) -> RunFolder:
    """The folder of a new run.

    Raises:
        RunExists, Refused: the one asked for cannot be had.
    """
    plan = registration.plan
    config = {**request.config(), "algorithm": plan.name, "env": plan.env}
    config |= _resolved(request, registration)
    if request.run_dir is not None:
        return RunFolder.create(request.run_dir, config)
    root = request.folder / "runs"
    return RunFolder.create_numbered(root, plan.name, plan.env, plan.seed, config)


@contextmanager
def node_of(folder: RunFolder, registration: Registration) -> Iterator[Node]:
    """The memory of a new run; its folder is discarded if there is not enough, or it is refused."""
    try:
        node = Node(registration.plan, folder.path.name, folder.logs)
    except BaseException:
        folder.discard()
        raise
    try:
        with node:
            yield node
    except Refused:
        folder.discard()
        raise


def stored_request(folder: RunFolder, settings: dict[str, Any], quiet: bool) -> Request:
    """What was asked for when the run began, with these ``settings`` instead of stored ones."""
    stored = {**folder.config, "settings": folder.config["settings"] | settings}
    stored.pop("origin", None)  # that is where it began
    names = Request.__dataclass_fields__.keys() & stored.keys()
    kept = {name: stored[name] for name in names} | {"run_dir": folder.path, "quiet": quiet}
    return Request(**{**kept, "folder": Path(stored["folder"])})


def _resolved(request: Request, registration: Registration) -> dict[str, Any]:
    """What reproduces the run: all settings, and what it was made of, by whom and where."""
    return {
        "settings": registration.resolved,
        "versions": registration.versions,
        "host": provenance.host(),
        "origin": request.origin or provenance.origin(request.folder),
    }


def _store(folder: RunFolder, request: Request, registration: Registration) -> None:
    # What was changed when resuming also holds for the next time.
    resolved = _resolved(request, registration)
    settings = {"settings": resolved.pop("settings")}
    resumed = [*folder.config.get("resumed", ()), resolved]
    folder.config = folder.config | settings | {"resumed": resumed}
    with writing(folder.path):
        text = msgspec.json.format(msgspec.json.encode(folder.config))
        write_durably(folder.config_file, text + b"\n")


def _restore(folder: RunFolder, node: Node) -> None:
    empty = {a.name: _blank(a) for a in node.plan.objects[0].arrays}
    saved = checkpoint.read_manifest(folder.checkpoint).objects.keys() & node.objects.keys()
    values = {f"{OBJECT}{name}": _blank(node.objects[name].spec.arrays[0]) for name in saved}
    expected = checkpoint.layout_of(named(empty, node.plan) | values)
    arrays, manifest = checkpoint.load(folder.checkpoint, expected)
    node.restore(flattened(arrays, node.plan), manifest.version)
    for name in saved:
        node.restore_object(name, arrays[f"{OBJECT}{name}"], manifest.objects[name])
    _drop_half_a_line(folder.journal)


def _blank(spec: ArraySpec) -> Any:
    return np.zeros(spec.shape, spec.dtype)


def _drop_half_a_line(journal: Path) -> None:
    """Cut off what a killed supervisor left unfinished, so that the next line is a line."""
    if journal.exists():
        with journal.open("r+b") as file:
            file.truncate(file.read().rfind(b"\n") + 1)


def _view(request: Request) -> LiveView:
    """In one process users may have a debugger, which needs the terminal."""
    return LiveView(sys.stderr, quiet=request.quiet, panel=not request.inline)


def _finished(
    registration: Registration, folder: RunFolder, node: Node, request: Request,
    requests: StopRequests, view: LiveView, before: Manifest | None = None,
) -> Summary:  # fmt: skip
    def members(session: Session) -> RunMembers:
        if request.inline:
            return Inline(node)
        return OneMachine(
            node, folder.path, session.clock, session.undisturbed, registration.preloaded
        )

    logged = LoggedView(view, folder.log)
    with logging_to(logged.note):
        return Session(registration, folder, node, requests, logged, members, before).run()
