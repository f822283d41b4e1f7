"""The learner process of a workload, on the head node (paper §4.1)."""

from __future__ import annotations

from pathlib import Path

import msgspec

from artos.buffer.mailbox import LEARNER
from artos.plan import Plan, Site
from artos.system.child import Child, ProcessSpec, Starter, start
from artos.system.child_modules import ChildModule
from artos.system.exit_report import ExitReport


class LearnerHost:
    """Starts the learner, notices at once when it dies, and starts it again when asked."""

    def __init__(self, plan: Plan, site: Site, plan_file: Path, begin: Starter = start) -> None:
        self._threads, self._plan_file, self._begin = plan.threads, plan_file, begin
        self._site = msgspec.structs.replace(site, member=LEARNER)
        self._child: Child | None = None

    def start(self) -> None:
        """Start the learner; its log is appended to across restarts."""
        arguments = (msgspec.json.encode(self._site).decode(), str(self._plan_file))
        spec = ProcessSpec(ChildModule.MEMBER, arguments, self._threads, keeps_heap=True)
        self._child = self._begin(spec, Path(self._site.logs) / "learner.log")

    def end(self) -> None:
        """Kill the learner; a new one goes on from the model block."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def reap(self) -> list[tuple[int, ExitReport]]:
        """The learner and its exit report, if it died since the last call."""
        child = self._child
        status = None if child is None else child.died()
        if child is None:
            return []
        child.cap_log()
        if status is None:
            return []
        self._child = None
        return [(LEARNER, ExitReport.of_process(child.pid, status, child.log_tail()))]

    def pids(self) -> dict[int, int]:
        """Process id by member number."""
        return {} if self._child is None else {LEARNER: self._child.pid}

    def stop(self, seconds: float) -> None:
        """Let the learner end by itself for ``seconds``, then kill it."""
        if self._child is not None:
            self._child.end(seconds)
            # Only now: a second Ctrl-C during the wait above must find the child and kill it.
            self._child = None
