"""A member beside the actors on this node: a learner (paper §4.1), evaluator or server."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from artos.runs.plan import Site
from artos.specs.members import Member
from artos.system.child import Child, ProcessSpec, Starter, start
from artos.system.child_modules import ChildModule
from artos.system.exit_report import ExitReport


class MemberHost:
    """Starts the member, notices at once when it dies, and starts it again when asked."""

    def __init__(
        self, site: Site, plan_file: Path, log: Path, threads: int, begin: Starter
    ) -> None:
        self._threads, self._plan_file, self._begin = threads, plan_file, begin
        self._site, self._log = site, log
        self._child: Child | None = None

    def start(self) -> None:
        """Start the member; its log is appended to across restarts."""
        self._site = msgspec.structs.replace(self._site, starts=self._site.starts + 1)
        arguments = (msgspec.json.encode(self._site).decode(), str(self._plan_file))
        spec = ProcessSpec(ChildModule.MEMBER, arguments, self._threads, keeps_heap=True)
        self._child = self._begin(spec, self._log)

    def end(self) -> None:
        """Kill the member; what it goes on from is in shared memory."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def reap(self) -> ExitReport | None:
        """Its exit report, if it died since the last call."""
        child = self._child
        status = None if child is None else child.died()
        if child is None:
            return None
        child.cap_log()
        if status is None:
            return None
        self._child = None
        return ExitReport.of_process(child.pid, status, child.log_tail())

    @property
    def lives(self) -> bool:
        """Whether it has a process."""
        return self._child is not None

    def stop(self, seconds: float) -> None:
        """Let the member end by itself for ``seconds``, then kill it."""
        if self._child is not None:
            self._child.end(seconds)
            # Only now: a second Ctrl-C during the wait above must find the child and kill it.
            self._child = None


def hosts(
    site: Site, plan_file: Path, members: Iterable[Member], begin: Starter = start
) -> dict[Member, MemberHost]:
    """The hosts of these members, in the order of their start."""
    return {
        member: MemberHost(
            msgspec.structs.replace(site, member=member),
            plan_file,
            Path(site.logs) / f"{str(member).replace(' ', '-')}.log",
            site.members.role(member).threads,
            begin,
        )
        for member in members
    }
