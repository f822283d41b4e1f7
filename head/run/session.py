"""One run from wiring to summary, wherever its members live."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Protocol

from artos.clock import WakingClock
from artos.protocol.run_state import STOPPING
from artos.protocol.usage import Usage
from artos.protocol.views import Status
from artos.runtime.control import announced
from artos.system.signals import StopRequests, child_deaths
from artos.system.snapshot import Snapshot
from artos.system.thread_time import ThreadTime
from head.records.gaps import Gaps
from head.records.place import place
from head.records.progress_log import ProgressLog
from head.records.provenance import differences
from head.records.run_folder import RunFolder, writing
from head.records.status import Summary
from head.records.tensorboard import TensorBoard
from head.run.concerns.scaling import Scaler
from head.run.coordination.ports import Ports, Processes
from head.run.coordination.rows import RowSource
from head.run.preparation import PreparedRun
from head.run.recorder import Recorder
from head.run.run import Run
from head.run.wiring import connect
from triggers.journal import Journal

_LONG = 0.01
"""Seconds for which the loop may wait for records or a CPU before the journal says so."""


class RunMembers(Processes, Protocol):
    """The members of a run (inline, on one machine, on a cluster) and the loop that serves them."""

    def child_ended(self) -> None:
        """A child of this process ended. Safe in a signal handler."""

    def run(self, coordinator: Run, after: Callable[[], None]) -> None:
        """Start everything and serve until the coordinator is finished."""

    def usage(self) -> Usage:
        """What the actors used so far."""

    def halt(self) -> bool:
        """Stop where the members are now, if a snapshot of that can be taken; returns whether so.

        Safe in a signal handler.
        """

    def snapshot(self) -> Snapshot | None:
        """What the members hold now; None if nobody knows.

        Those that are processes of their own say so as they end, if all of the run is saved.
        """

    def stop(self) -> None:
        """End every member in order."""

    def kill(self) -> None:
        """End every member at once."""


class View(Protocol):
    """Shows how a run goes."""

    @property
    def due(self) -> bool:
        """Whether ``show`` wants a status now."""

    def show(self, status: Status) -> None:
        """Show the newest status."""

    def note(self, text: str) -> None:
        """Show this line at once."""

    def last(self, status: Status) -> None:
        """Show the last status of the run."""

    def finish(self, summary: Summary, folder: RunFolder) -> None:
        """Show the summary: the run is over."""


class Session:
    """A run's coordinator and records, its ``members``, and the ``view`` that shows how it goes.

    Raises:
        Refused: the records cannot be opened.
    """

    def __init__(
        self,
        prepared: PreparedRun,
        requests: StopRequests,
        view: View,
        members: RunMembers,
        clock: WakingClock,
        row_source: RowSource | None = None,
    ) -> None:
        registration, before = prepared.registration, prepared.before
        self._folder, self._node, self._before = prepared.folder, prepared.node, before
        self._requests, self._view, self._members, self._clock = requests, view, members, clock
        self._told, self._noted = False, ThreadTime.now()
        plan, node, folder = registration.plan, self._node, self._folder
        with ExitStack() as opened:
            opened.callback(members.kill)
            with writing(folder.path):
                self._journal = Journal(folder.journal, clock.now())
                opened.callback(self._journal.close)
                resumed_at = before.steps if before else None
                ended = (before.version, before.updates) if before else ()
                log = ProgressLog(folder, resumed_at, *ended, agents=bool(plan.agent_names))
                opened.enter_context(log)
                seen = place(before.steps, before.updates) if before else None
                board = TensorBoard.of(folder, seen)
                opened.callback(board.close, "")
            # Only now: a journal with a line to write raises once more if its disk is full.
            self._journal.begins(clock.now(), time.time())
            self._coordinator = coordinator = connect(
                plan,
                registration.table,
                Ports.of(node, self._members, clock, self._journal, row_source),
                base_steps=before.steps if before else 0,
                scaler=Scaler(plan, registration.policy, before.scaling if before else None),
                configuration=folder.configuration,
                keep=folder.keep,
            )
            self._gaps = Gaps()
            self._recorder = Recorder(
                plan, folder, log, board, node, coordinator, clock, self._gaps, before=before,
                snapshot=members.snapshot, usage=members.usage, epoch=prepared.epoch,
            )  # fmt: skip
            opened.pop_all()

    def run(self) -> Summary:
        """Run to the end; save and clean up whatever happens."""
        with announced(self._folder.path, self._node.site) as self._tell:
            for doubt in self._node.plan.doubts:
                self._view.note(doubt)
            self._note_what_is_not_restored()
            try:
                with (
                    child_deaths(self._members.child_ended),
                    self._requests.draining(self._drain),
                ):
                    self._members.run(self._coordinator, self._after)
                    self._recorder.trained()
                    # While members in this process still hold what is to be saved.
                    self._recorder.save(ended=True)
                    self._members.stop()
            except BaseException as error:
                self._members.kill()
                if isinstance(error, KeyboardInterrupt):
                    self._finish("interrupted", curve=False)
                else:
                    self._finish("failed", f"{type(error).__name__}: {error}")
                raise
            summary = self._finish("interrupted" if self._coordinator.ending.draining else "done")
            self._recorder.see_saved()
            return summary

    def _finish(self, outcome: str, why: str = "", *, curve: bool = True) -> Summary:
        self._tell(STOPPING)
        summary = self._recorder.finish(outcome, why=why, curve=curve)
        with self._gaps.allowed("journal.jsonl", "its last lines are missing"):
            self._journal.close()
        self._view.last(self._recorder.status())
        self._view.finish(summary, self._folder)
        return summary

    def _drain(self) -> None:
        # In a signal handler, which may have interrupted the view: nothing is printed here.
        if not self._members.halt():
            self._coordinator.ending.drain()
        self._node.board.doorbell.ring()

    def _after(self) -> None:
        if self._coordinator.ending.draining and not self._told:
            self._told = True
            self._tell(STOPPING)
            self._view.note("stopping: running work is finished and saved (second signal: at once)")
        began = ThreadTime.now() if self._recorder.due else None
        if began is not None:  # before a checkpoint, whose run is killed: it says how that came
            with self._gaps.allowed("journal.jsonl"):
                self._journal.flush()
        self._recorder.update(self._view.show, self._view.due)
        if began is not None:
            self._note_delays(began)

    def _note_delays(self, began: ThreadTime) -> None:
        """Tell the journal how long the loop waited for CPUs, and for its records since then."""
        ended, now = ThreadTime.now(), self._clock.now()
        if (seconds := ended.since(began).blocked) >= _LONG:
            self._journal.blocked(now, seconds)
        if (seconds := ended.since(self._noted).queued) >= _LONG:
            self._journal.queued(now, seconds)
        self._noted = ended

    def _note_what_is_not_restored(self) -> None:
        if self._before is None:
            return
        config = self._folder.config
        now = config["resumed"][-1]["versions"]
        lacks = (*self._before.not_restored, *differences(config.get("versions", {}), now))
        what = "not restored:" if lacks else "everything is restored"
        self._view.note(f"resumed at step {self._before.steps}; {what}")
        for each in lacks:
            self._view.note(f"  - {each}")
        for name, value in self._coordinator.configuration.settings.items():
            self._view.note(f"as it was set while the run went: {name}={value:g}")
