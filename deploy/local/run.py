"""``artos run``: runs a workload, from its registration to the finished run folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from artos.clock import SystemClock, WakingClock
from artos.errors import Refused
from artos.runs.plan import Plan
from artos.runtime.preload import Preloaded
from artos.system.logging_setup import logging_to, to_stderr
from artos.system.signals import StopRequests
from artos.trained.trust import allow, require_own_places, require_own_states
from deploy.client import copied
from deploy.display.view import LiveView
from deploy.local.inline import Inline
from deploy.tracking.alongside import Alongside, TrackedView
from deploy.tracking.trackers import require
from head.records import summary_file
from head.records.curve import import_ahead
from head.records.run_folder import RunFolder
from head.records.status import Summary
from head.run.concerns.budget import STEPS, UPDATES
from head.run.preparation import PreparedRun, begun, resumed, stored_request
from head.run.request import Request
from head.run.session import RunMembers, Session
from head.run.supervisor import OneMachine
from triggers.passers import Mailboxes
from workers.executor.build import build, faults

_REGISTRATION = "registration"


def run(
    request: Request, preloaded: Preloaded | None = None, track: Sequence[str] = ()
) -> Summary:  # fmt: skip
    """Start a new run and see it to its end; ``preloaded`` comes from ``request.preload()``.

    ``track`` are the trackers to which it is sent, too.

    Raises:
        Refused, RunExists, ShmTooSmall: refused before anything was started.
        ArtosError: the run failed; its weights so far are saved.
        KeyboardInterrupt: stopped before it began, or at once by a second Ctrl-C.
    """
    with _tracked(track) as trackers, StopRequests() as requests, _view(request) as view:
        view.phase(_REGISTRATION)
        if preloaded is not None:
            import_ahead()  # while the preload process imports, which takes longer
        with begun(request, requests, preloaded, faults) as prepared:
            return _seen_through(prepared, request, requests, view, trackers)


def resume(
    path: Path, settings: dict[str, Any], *, quiet: bool, trust: bool = False,
    track: Sequence[str] = (), deadline: float | None = None, seed: int | None = None,
    inline: bool = False,
) -> Summary:  # fmt: skip
    """Continue a run from its checkpoint; ``settings`` (e.g. total_steps) replace stored settings.

    So does a ``deadline`` in seconds. ``seed`` and ``inline`` are those of the run.

    Raises:
        CheckpointFault: there is nothing to continue, or it does not fit.
        Refused: its code, its pickled states or its settings may be someone else's, and ``trust``
            is not set; it has another seed, or processes, where it is to be ``inline``.
        RunExists: the run is live.
    """
    with _tracked(track) as trackers, StopRequests() as requests, RunFolder.resume(path) as folder:
        request = stored_request(folder, settings, quiet, deadline)
        other = [f"--seed {seed}: the run has {request.seed}"] * (seed not in (None, request.seed))
        if inline and not request.inline:
            other.append("--inline: the run has processes, and goes on with them")
        if other:
            raise Refused(other)
        allow(path, folder.config, request.reference(), trust=trust)
        stored = {n: v for n, v in request.settings.items() if n not in settings}
        require_own_places(path, folder.config, stored, trust=trust)
        if not trust and request.settings.get("checkpoint") != "model":
            require_own_states(path)

        def unfit(plan: Plan) -> list[str]:
            limits = {limit: getattr(plan, limit) for limit in (STEPS, UPDATES)}
            return faults(plan) + summary_file.spent(path, limits)

        with request.preload() as preloaded, _view(request) as view:
            view.phase(_REGISTRATION)
            with resumed(request, folder, requests, preloaded, unfit) as prepared:
                copied.forget(path)
                return _seen_through(prepared, request, requests, view, trackers)


def _view(request: Request) -> LiveView:
    """The view, without a panel if all is in one process: a debugger may need the terminal."""
    return LiveView(sys.stderr, quiet=request.quiet, panel=not request.inline)


@contextmanager
def _tracked(names: Sequence[str]) -> Iterator[Alongside]:
    """Trackers, which have some time in the end, when the run's folder is free."""
    for name in names:
        require(name)
    with Alongside(names, SystemClock()) as trackers:
        yield trackers
        for text in trackers.rest():
            to_stderr(f"artos: {text}")


def _seen_through(
    prepared: PreparedRun, request: Request, requests: StopRequests, view: LiveView,
    trackers: Alongside,
) -> Summary:  # fmt: skip
    logged, clock = TrackedView(view, prepared.folder.log, trackers), WakingClock()
    with logging_to(logged.note):
        trackers.begin(prepared.folder.path)
        members: RunMembers
        node, preloaded = prepared.node, prepared.registration.preloaded
        if request.inline:
            members = Inline(node, prepared.states)
        else:
            mail = Mailboxes(node.board)
            actors = build(node, prepared.folder.path, mail, clock, preloaded)
            members = OneMachine(
                node, mail, actors, clock, requests.undisturbed, preloaded, prepared.states
            )
        return Session(prepared, requests, logged, members, clock).run()
