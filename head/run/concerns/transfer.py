"""Rows that a transfer trigger ships from the cache buffer to the replay buffer."""

from __future__ import annotations

from artos.buffer.version_runs import other_versions, versions_at
from artos.specs.keys import VERSION_KEY
from head.run.coordination.concern import Concern
from head.run.run import Run
from triggers.events import Arrived, Firing


class Transfer(Concern[Run]):
    """Tells the triggers that shipped rows have arrived."""

    def fire(self, firing: Firing) -> None:
        """A transfer trigger fired: head and worker share the blocks, so the rows are there."""
        for claim in firing.claims:
            rows = dict.fromkeys((*firing.keys, VERSION_KEY), claim.stop)
            block = self.run.ports.blocks[claim.actor]
            others = other_versions(block)
            made = versions_at(block, claim.start, [*others])
            versions = dict(zip(others.values(), made, strict=True))
            self.run.feed(Arrived(claim.actor, rows, firing.version, versions))
