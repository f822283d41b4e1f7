"""A set of member processes that are started, noticed dead, restarted and stopped together."""

from __future__ import annotations

from pathlib import Path

import msgspec

from artos.clock import Deadline
from artos.plan import Site
from artos.runtime.child import Child, start
from artos.runtime.death import Death

_MODULE = "artos.runtime.process"


class Children:
    """Member processes of one kind; each has its own log file, appended to across restarts."""

    def __init__(self, site: Site, plan: Path, name: str, threads: int, *, learner: bool) -> None:
        self._site, self._plan, self._name = site, plan, name
        self._threads, self._learner = threads, learner
        self._children: dict[int, Child] = {}

    def start(self, member: int) -> Child:
        """Start the member's process."""
        site = msgspec.structs.replace(self._site, member=member)
        arguments = [msgspec.json.encode(site).decode(), str(self._plan)]
        child = start(_MODULE, arguments, self.log_of(member), self._threads, self._learner)
        self._children[member] = child
        return child

    def end(self, member: int) -> None:
        """Kill what is left of the member; fine if nothing is."""
        if member in self._children:
            self._children[member].kill()
            del self._children[member]

    def log_of(self, member: int) -> Path:
        """Log file of a member."""
        return (
            Path(self._site.logs) / f"{self._name}{'' if self._learner else f'-{member - 1}'}.log"
        )

    def pids(self) -> dict[int, int]:
        """Process id by member."""
        return {member: child.pid for member, child in self._children.items()}

    def reap(self) -> list[tuple[int, Death]]:
        """Members that died since the last look, and of what. They are reaped."""
        dead = []
        for member, child in list(self._children.items()):
            status = child.died()
            if status is not None:
                del self._children[member]
                dead.append((member, Death.of_process(child.pid, status, child.log_tail())))
        return dead

    def stop(self, seconds: float) -> None:
        """Wait at most ``seconds`` for all to end by themselves, then kill the rest; reaps all."""
        deadline = Deadline(seconds)
        for member, child in list(self._children.items()):
            child.end(deadline.left)
            # Only now: a second Ctrl-C in the wait above must find it here and kill it.
            del self._children[member]
