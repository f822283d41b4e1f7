"""A set of member processes that are started, noticed dead, restarted and stopped together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from artos.clock import Deadline
from artos.plan import Site
from artos.runtime.child import Child, start

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

    def restart(self, member: int) -> None:
        """End what is left of the member and start it anew."""
        if member in self._children:
            self._children.pop(member).kill()
        self.start(member)

    def log_of(self, member: int) -> Path:
        """Log file of a member."""
        return (
            Path(self._site.logs) / f"{self._name}{'' if self._learner else f'-{member - 1}'}.log"
        )

    def pids(self) -> dict[int, int]:
        """Process id by member."""
        return {member: child.pid for member, child in self._children.items()}

    def reap(self) -> list[tuple[int, str]]:
        """Members that died since the last look, and of what. They are reaped."""
        dead = []
        for member, child in list(self._children.items()):
            status = child.died()
            if status is not None:
                del self._children[member]
                dead.append((member, _cause(status, child)))
        return dead

    def stop(self, seconds: float) -> None:
        """Wait at most ``seconds`` for all to end by themselves, then kill the rest; reaps all."""
        deadline = Deadline(seconds)
        for child in self._take():
            child.end(deadline.left)

    def kill(self) -> None:
        """SIGKILL all of them; reaps all."""
        for child in self._take():
            child.kill()

    def _take(self) -> Iterable[Child]:
        children, self._children = list(self._children.values()), {}
        return children


def _cause(status: int, child: Child) -> str:
    how = f"killed by signal {-status}" if status < 0 else f"ended with exit status {status}"
    tail = child.log_tail()
    return f"process {child.pid} {how}" + (f"; its last output:\n{tail}" if tail else "")
