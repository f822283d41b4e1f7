"""The process manager of a node: the life of its actor processes (checklist A20)."""

from __future__ import annotations

from pathlib import Path

from artos.buffer.board import actor_member
from artos.plan import Plan, Site
from artos.runtime.children import Children


class ProcessManager:
    """Starts a workload's actors, notices at once when one dies, starts it again when asked."""

    def __init__(self, plan: Plan, site: Site, plan_file: Path) -> None:
        self._plan = plan
        self._children = Children(site, plan_file, "actor", threads=1, learner=False)

    def start(self) -> None:
        """Start every actor of the workload."""
        for actor in range(self._plan.actors):
            self._children.start(actor_member(actor))

    def restart(self, member: int) -> None:
        """End what is left of an actor and start it anew."""
        self._children.restart(member)

    def reap(self) -> list[tuple[int, str]]:
        """Actors that died since the last look, by member number, and of what."""
        return self._children.reap()

    def pids(self) -> dict[int, int]:
        """Process id by member number."""
        return self._children.pids()

    def stop(self, seconds: float) -> None:
        """Let actors end by themselves for ``seconds``, then kill them."""
        self._children.stop(seconds)
