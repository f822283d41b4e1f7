"""The learner process of a workload, on the head node (checklist A19)."""

from __future__ import annotations

from pathlib import Path

from artos.buffer.board import LEARNER
from artos.plan import Plan, Site
from artos.runtime.children import Children
from artos.runtime.death import Death


class LearnerHost:
    """Starts the learner, notices at once when it dies, starts it again when asked."""

    def __init__(self, plan: Plan, site: Site, plan_file: Path) -> None:
        self._children = Children(site, plan_file, "learner", plan.threads, learner=True)

    def start(self) -> None:
        """Start the learner."""
        self._children.start(LEARNER)

    def end(self) -> None:
        """Kill what is left of the learner; a new one goes on from the model block."""
        self._children.end(LEARNER)

    def reap(self) -> list[tuple[int, Death]]:
        """The learner if it died since the last look, and of what."""
        return self._children.reap()

    def pids(self) -> dict[int, int]:
        """Process id by member number."""
        return self._children.pids()

    def stop(self, seconds: float) -> None:
        """Let it end by itself for ``seconds``, then kill it."""
        self._children.stop(seconds)
