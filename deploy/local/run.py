"""``artos run``: from a registration to a finished run folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from artos.buffer.run_memory import Node, check_space
from artos.runtime.preloaded import Preloaded
from artos.system.logging_setup import logging_to
from artos.system.signals import StopRequests
from deploy.display.logged_view import LoggedView
from deploy.display.view import LiveView
from deploy.local.inline import Inline
from deploy.local.one_machine import OneMachine
from head.records.checkpoint import Manifest
from head.records.curve import import_ahead
from head.records.run_folder import RunFolder
from head.records.status import Summary
from head.run.preparation import (
    continued,
    new_folder,
    node_of,
    registered,
    restored,
    stored_request,
)
from head.run.request import Request
from head.run.session import RunMembers, Session
from triggers.registration import Registration
from workers.executor import build

_REGISTRATION = "registration"


def run(request: Request, preloaded: Preloaded | None = None) -> Summary:
    """Start a new run and stay with it to its end; ``preloaded`` comes from ``request.preload()``.

    Raises:
        Refused, RunExists, ShmTooSmall: before anything was started.
        ArtosError: the run failed; what it learned so far is saved.
        KeyboardInterrupt: stopped before it began, or at once by a second Ctrl-C.
    """
    with StopRequests() as requests, _view(request) as view:
        view.phase(_REGISTRATION)
        if preloaded is not None:
            import_ahead()  # meanwhile the other process imports as well, and takes longer
        registration = registered(request, preloaded, build.faults)
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
        CheckpointFault: there is nothing to continue, or it does not fit.
        RunExists: the run is live.
    """
    with StopRequests() as requests, RunFolder.resume(path) as folder:
        request = stored_request(folder, settings, quiet)
        with request.preload() as preloaded, _view(request) as view:
            view.phase(_REGISTRATION)
            registration, manifest = continued(request, folder, preloaded, build.faults)
            with requests.held(), restored(request, folder, registration) as node:
                return _finished(registration, folder, node, request, requests, view, manifest)


def _view(request: Request) -> LiveView:
    """No panel if all is in one process: a debugger may need the terminal."""
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
