"""``artos run``: from a registration to a finished run folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from artos.clock import SystemClock
from artos.spec import ArraySpec
from deploy.control import announced
from deploy.inline import Inline
from deploy.node import Node, check_space
from deploy.one_machine import OneMachine
from deploy.recorder import NOT_RESTORED, Recorder, flattened, named
from deploy.registration import Registration, prepare, reference_of
from deploy.signals import StopRequests, child_deaths
from deploy.view import LiveView
from deploy.wiring import connect
from head.coordinator import Coordinator
from head.records import checkpoint
from head.records.checkpoint import Manifest, check_workload
from head.records.durable import write_durably
from head.records.run_folder import RunFolder
from head.status import Summary
from triggers.journal import Journal


@dataclass(frozen=True)
class Request:
    """What the user asked for. ``settings`` are the flags and every ``--set``.

    ``deadline``: seconds a member may take to carry out one invocation.
    """

    workload: str
    settings: dict[str, Any] = field(default_factory=dict)
    seed: int = 1
    run_dir: Path | None = None
    inline: bool = False
    quiet: bool = False
    folder: Path = field(default_factory=Path.cwd)
    deadline: float = 300.0

    def config(self) -> dict[str, Any]:
        """What is stored as the run's configuration."""
        return {
            "workload": self.workload,
            "settings": self.settings,
            "seed": self.seed,
            "inline": self.inline,
            "folder": str(self.folder),
            "deadline": self.deadline,
        }

    def register(self) -> Registration:
        """The verified plan of what was asked for.

        Raises:
            Refused: all faults at once.
        """
        reference = reference_of(self.workload, self.settings, self.folder)
        return prepare(reference, self.seed, apart=not self.inline, deadline=self.deadline)


def run(request: Request) -> Summary:
    """Start a new run and see it through.

    Raises:
        Refused, RunExists, ShmTooSmall: before anything was started.
        ArtosError: the run failed; what it learned so far is saved.
        KeyboardInterrupt: stopped before it began, or at once by a second Ctrl-C.
    """
    with StopRequests() as requests:
        registration = request.register()
        check_space(registration.plan)
        with (
            requests.held(),
            _new_folder(request, registration) as folder,
            _node_of(folder, registration) as node,
        ):
            return _Session(registration, folder, node, request, requests).run()


def resume(path: Path, settings: dict[str, Any], *, quiet: bool) -> Summary:
    """Continue a run from its checkpoint; ``settings`` (e.g. total_steps) replace stored ones.

    Raises:
        CheckpointFault: nothing to continue, or what is there does not fit.
        RunExists: the run is live.
    """
    with StopRequests() as requests, RunFolder.resume(path) as folder:
        request = _stored_request(folder, settings, quiet)
        manifest = checkpoint.read_manifest(folder.checkpoint)
        registration = request.register().resumed(manifest.resumes + 1)
        plan = registration.plan
        check_workload(folder.checkpoint, manifest, plan.name, plan.env)
        check_space(plan)
        with requests.held(), Node(plan, folder.path.name, folder.logs) as node:
            _restore(folder, node)
            _store(folder, request)
            return _Session(registration, folder, node, request, requests, manifest).run()


def _new_folder(request: Request, registration: Registration) -> RunFolder:
    plan = registration.plan
    config = {**request.config(), "algorithm": plan.name, "env": plan.env}
    if request.run_dir is not None:
        return RunFolder.create(request.run_dir, config)
    root = request.folder / "runs"
    return RunFolder.create_numbered(root, plan.name, plan.env, plan.seed, config)


@contextmanager
def _node_of(folder: RunFolder, registration: Registration) -> Iterator[Node]:
    try:
        node = Node(registration.plan, folder.path.name, folder.logs)
    except BaseException:
        folder.discard()
        raise
    with node:
        yield node


def _stored_request(folder: RunFolder, settings: dict[str, Any], quiet: bool) -> Request:
    stored = {**folder.config, "settings": folder.config["settings"] | settings}
    names = Request.__dataclass_fields__.keys() & stored.keys()
    kept = {name: stored[name] for name in names} | {"run_dir": folder.path, "quiet": quiet}
    return Request(**{**kept, "folder": Path(stored["folder"])})


def _store(folder: RunFolder, request: Request) -> None:
    # What was changed when resuming also holds for the next time.
    config = folder.config | {"settings": request.settings}
    write_durably(folder.config_file, msgspec.json.format(msgspec.json.encode(config)) + b"\n")


def _restore(folder: RunFolder, node: Node) -> None:
    empty = {a.name: _blank(a) for a in node.plan.objects[0].arrays}
    expected = checkpoint.layout_of(named(empty, node.plan))
    arrays, manifest = checkpoint.load(folder.checkpoint, expected)
    node.restore(flattened(arrays, node.plan), manifest.version)
    _drop_half_a_line(folder.journal)


def _blank(spec: ArraySpec) -> Any:
    return np.zeros(spec.shape, spec.dtype)


def _drop_half_a_line(journal: Path) -> None:
    """Cut off what a killed supervisor left unfinished, so that the next line is a line."""
    if journal.exists():
        with journal.open("r+b") as file:
            file.truncate(file.read().rfind(b"\n") + 1)


class _Session:
    """One run from wiring to summary."""

    def __init__(
        self, registration: Registration, folder: RunFolder, node: Node, request: Request,
        requests: StopRequests, before: Manifest | None = None,
    ) -> None:  # fmt: skip
        self._folder, self._node, self._requests, self._before = folder, node, requests, before
        clock = SystemClock()
        self._view = LiveView(sys.stderr, quiet=request.quiet)
        self._members = (
            Inline(node)
            if request.inline
            else OneMachine(
                node, folder.path / "images", clock, self._view.note, requests.undisturbed
            )
        )
        self._journal = Journal(folder.journal, clock.now())
        self._coordinator = Coordinator(
            registration.plan, node.blocks, node.weights, self._members, clock, self._journal,
            base_steps=before.steps if before else 0,
        )  # fmt: skip
        connect(registration.table, self._coordinator, clock, self._journal)
        plan, coordinator = registration.plan, self._coordinator
        self._recorder = Recorder(plan, folder, node, coordinator, clock, before=before)
        self._coordinator.on_restart = self._view.note
        self._outcome, self._told = "done", False

    def run(self) -> Summary:
        """Run to the end; save and clean up whatever happens."""
        with self._view:
            self._note_what_is_not_restored()
            try:
                self._serve()
            except BaseException as error:
                stopped = isinstance(error, KeyboardInterrupt)
                self._outcome = "interrupted" if stopped else "failed"
                self._members.kill()
                self._finish(curve=not stopped)
                raise
            return self._finish()

    def _serve(self) -> None:
        with (
            child_deaths(self._members.child_ended),
            announced(self._folder.path, self._node.site),
            self._requests.draining(self._drain),
        ):
            self._members.run(self._coordinator, self._after)
            self._recorder.trained()
            self._members.stop()

    def _finish(self, *, curve: bool = True) -> Summary:
        self._journal.close()
        summary = self._recorder.finish(
            self._outcome, self._members.bill(), self._view.note, curve=curve
        )
        self._view.finish(summary, self._folder)
        return summary

    def _drain(self) -> None:
        # In a signal handler, which may have interrupted the view: nothing is printed here.
        self._outcome = "interrupted"
        self._coordinator.drain()
        self._node.board.bell.ring()

    def _after(self) -> None:
        if self._outcome == "interrupted" and not self._told:
            self._told = True
            self._view.note("stopping: what is in flight is finished and saved (again: at once)")
        if self._recorder.update(self._view.show, self._view.due):
            self._journal.flush()

    def _note_what_is_not_restored(self) -> None:
        if self._before is not None:
            self._view.note(f"resumed at step {self._before.steps}; not restored:")
            for what in NOT_RESTORED:
                self._view.note(f"  - {what}")
