"""The process manager of a node: the life of its actor processes (checklist A20)."""

from __future__ import annotations

from pathlib import Path

from artos.buffer.board import actor_member
from artos.plan import Plan, Site
from artos.runtime.children import Children
from artos.runtime.death import Death


class ProcessManager:
    """Starts a workload's actors, notices at once when one dies, starts it again when asked."""

    def __init__(self, plan: Plan, site: Site, plan_file: Path) -> None:
        self._plan = plan
        self._children = Children(site, plan_file, "actor", threads=1, learner=False)

    def start_all(self) -> None:
        """Start every actor of the workload."""
        for actor in range(self._plan.actors):
            self.start(actor_member(actor))

    def start(self, member: int) -> None:
        """Start one actor."""
        self._children.start(member)

    def end(self, member: int) -> None:
        """Kill what is left of an actor."""
        self._children.end(member)

    def reap(self) -> list[tuple[int, Death]]:
        """Actors that died since the last look, by member number, and of what."""
        return self._children.reap()

    def pids(self) -> dict[int, int]:
        """Process id by member number."""
        return self._children.pids()

    def stop(self, seconds: float) -> None:
        """Let actors end by themselves for ``seconds``, then kill them."""
        self._children.stop(seconds)
