"""``artos run``: from a registration to a finished run folder."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from artos.clock import SystemClock
from artos.spec import ArraySpec
from deploy.inline import Inline
from deploy.node import Node
from deploy.one_machine import OneMachine, Signals
from deploy.recorder import Recorder, flattened, named
from deploy.registration import Registration, prepare, reference_of
from deploy.view import LiveView
from deploy.wiring import connect
from head.coordinator import Coordinator
from head.records import checkpoint
from head.records.checkpoint import Manifest, check_workload
from head.records.run_folder import RunFolder
from head.status import Summary
from triggers.journal import Journal


@dataclass(frozen=True)
class Request:
    """What the user asked for. ``settings`` are the flags and every ``--set``."""

    workload: str
    settings: dict[str, Any] = field(default_factory=dict)
    seed: int = 1
    run_dir: Path | None = None
    inline: bool = False
    quiet: bool = False
    folder: Path = field(default_factory=Path.cwd)

    def config(self) -> dict[str, Any]:
        """What is stored as the run's configuration."""
        return {
            "workload": self.workload,
            "settings": self.settings,
            "seed": self.seed,
            "inline": self.inline,
            "folder": str(self.folder),
        }


def run(request: Request) -> Summary:
    """Start a new run and see it through.

    Raises:
        Refused, RunExists, ShmTooSmall: before anything was started.
        ArtosError: the run failed; what it learned so far is saved.
        KeyboardInterrupt: stopped at once by a second Ctrl-C.
    """
    reference = reference_of(request.workload, request.settings, request.folder)
    registration = prepare(reference, request.seed, apart=not request.inline)
    plan = registration.plan
    config = {**request.config(), "algorithm": plan.name, "env": plan.env}
    if request.run_dir is None:
        root = request.folder / "runs"
        folder = RunFolder.create_numbered(root, plan.name, plan.env, plan.seed, config)
    else:
        folder = RunFolder.create(request.run_dir, config)
    with folder:
        try:
            node = Node(plan, folder.path.name, folder.logs)
        except BaseException:
            folder.discard()
            raise
        with node:
            return _Session(registration, folder, node, None, request).run()


def resume(path: Path, settings: dict[str, Any], *, quiet: bool) -> Summary:
    """Continue a run from its checkpoint; ``settings`` (e.g. total_steps) replace stored ones.

    Raises:
        CheckpointFault: nothing to continue, or what is there does not fit.
        RunExists: the run is live.
    """
    with RunFolder.resume(path) as folder:
        config = folder.config
        request = Request(
            config["workload"], config["settings"] | settings, config["seed"], path,
            config["inline"], quiet, Path(config["folder"]),
        )  # fmt: skip
        manifest = checkpoint.read_manifest(folder.checkpoint)
        reference = reference_of(request.workload, request.settings, request.folder)
        registration = prepare(reference, request.seed, apart=not request.inline)
        plan = msgspec.structs.replace(registration.plan, resumes=manifest.resumes + 1)
        check_workload(folder.checkpoint, manifest, plan.name, plan.env)
        with Node(plan, folder.path.name, folder.logs) as node:
            _restore(folder, node)
            table = registration.table
            return _Session(Registration(plan, table), folder, node, manifest, request).run()


def _restore(folder: RunFolder, node: Node) -> None:
    empty = {a.name: a for a in node.plan.objects[0].arrays}
    wanted = named({n: _blank(a) for n, a in empty.items()}, node.plan)
    expected = checkpoint.layout_of(wanted)
    arrays, manifest = checkpoint.load(folder.checkpoint, expected)
    node.restore(flattened(arrays, node.plan), manifest.version)


def _blank(spec: ArraySpec) -> Any:
    import numpy as np  # noqa: PLC0415

    return np.zeros(spec.shape, spec.dtype)


class _Session:
    """One run from wiring to summary."""

    def __init__(
        self, registration: Registration, folder: RunFolder, node: Node, before: Manifest | None,
        request: Request,
    ) -> None:  # fmt: skip
        self._folder, self._node, self._before = folder, node, before
        clock = SystemClock()
        self._members = Inline(node) if request.inline else OneMachine(node, clock)
        self._journal = Journal(folder.journal, clock.now())
        self._coordinator = Coordinator(
            registration.plan, node.blocks, node.weights, self._members, clock, self._journal,
            base_steps=before.steps if before else 0,
        )  # fmt: skip
        connect(registration.table, self._coordinator, clock, self._journal)
        self._recorder = Recorder(registration.plan, folder, node, self._coordinator, clock, before)
        self._view = LiveView(sys.stderr, quiet=request.quiet)
        self._outcome = "done"

    def run(self) -> Summary:
        """Run to the end; save and clean up whatever happens."""
        finish: Callable[[], None] = self._members.stop
        try:
            with Signals(self._node.board.bell.ring, self._on_stop), self._view:
                try:
                    self._members.run(self._coordinator, self._after)
                except BaseException:
                    self._outcome, finish = "failed", self._members.kill
                    raise
                finally:
                    finish()
                    self._journal.close()
                    summary = self._recorder.finish(self._outcome, self._view.note)
                    self._view.finish(summary, self._folder)
        finally:
            self._members.kill()
        return summary

    def _on_stop(self) -> None:
        self._outcome = "interrupted"
        self._coordinator.drain()
        self._view.note("stopping: finishing what is in flight, then saving (again: stop at once)")

    def _after(self) -> None:
        self._recorder.update(self._view.show, self._view.due)
