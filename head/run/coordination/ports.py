"""What the coordinator of a run is plugged into: memory, members, records, and a clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from artos.buffer.actor_block import ActorBlock
from artos.buffer.model_block import ObjectRegion
from artos.buffer.run_memory import Node
from artos.clock import Clock
from head.run.coordination.members import Members
from head.run.coordination.row_events import Commits, RowSource
from triggers.journal import Journal


@dataclass(frozen=True)
class Ports:
    """``model`` is the region of the weights, ``objects`` are those of what else is published.

    ``intake`` says what the triggers are told of the rows in ``blocks``.
    """

    blocks: Mapping[int, ActorBlock]
    model: ObjectRegion
    objects: Mapping[str, ObjectRegion]
    members: Members
    clock: Clock
    journal: Journal
    intake: RowSource

    @classmethod
    def of(
        cls, node: Node, members: Members, clock: Clock, journal: Journal,
        intake: RowSource | None = None,
    ) -> Ports:  # fmt: skip
        """Ports to a run's memory on this machine; by default actors commit to it themselves."""
        shipped = "transfer" in node.plan.triggers
        rows = intake or Commits(node.blocks, shipped=shipped)
        return cls(node.blocks, node.weights, node.objects, members, clock, journal, rows)
