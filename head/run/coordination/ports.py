"""What the coordinator of a run works with: memory, processes, journal and clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from artos.specs.members import Member
from head.run.coordination.rows import Commits, RowSource
from head.run.coordination.versions import Versions

if TYPE_CHECKING:
    from artos.buffer.actor_block import ActorBlock
    from artos.buffer.object_region import ObjectRegion
    from artos.clock import Clock
    from artos.protocol.invocations import Invoke, Ready
    from artos.runs.run_memory import RunMemory
    from head.run.coordination.books import Invocations
    from head.run.coordination.outline import Outline
    from triggers.engine import MessagePasser
    from triggers.events import Firing

NO_ROOM = "a node with a free slot"
"""What an actor waits for that the head has no place for."""


class Processes(Protocol):
    """The processes (or inline parts) of a workload's members, as the coordinator sees them."""

    @property
    def passers(self) -> Mapping[Member, MessagePasser[Invoke]]:
        """The passer that carries invocations to each member."""

    def waits_for_slot(self, member: Member) -> bool:
        """Whether the member's invocations wait for something it cannot help, e.g. a free slot."""

    def unplaced(self, member: Member) -> str:
        """What a member without a place to run waits for; "" if it has a place."""

    def end(self, member: Member) -> None:
        """Kill the member's process, so that nothing writes its memory any more.

        If an actor was killed during a commit, the commit is finished. The actor's pin is dropped.
        """

    def start(self, member: Member) -> None:
        """Empty the member's mailbox and start it again."""

    def prepare(self, member: Member, within: float = 0.0) -> None:
        """Have an idle actor ready for its next invocation: it has a process when this is done.

        It may take no part yet, or not any more, or wait as an image. An actor that runs for the
        first time reports ``Ready``; it may take so many seconds over that, so as to disturb the
        others less. A later call corrects their number. An actor is sent nothing before this was
        called. Must not block.
        """

    def retire(self, member: Member) -> None:
        """A prepared actor gets no invocations beyond those it has: release its resources.

        It may be prepared again. Must not block.
        """


class JournalWriter(Protocol):
    """What is recorded of a run; see ``triggers.journal.Journal``."""

    cause: str
    """The member whose rows, version or answer the triggers are being checked for."""

    def fired(self, now: float, firing: Firing) -> None:
        """A trigger fired."""

    def take_back(self, firing: int) -> None:
        """Nobody was invoked for the firing recorded last."""

    def done(
        self, now: float, firing: int, member: str, *, seconds: float = 0.0, **facts: Any
    ) -> None:
        """A member finished the invocation of a firing."""

    def ready(self, now: float, member: str, ready: Ready, seconds: float | None) -> None:
        """A member is set up."""

    def died(self, now: float, member: str, step: int, why: str, **facts: Any) -> None:
        """A member's process is gone."""

    def limited(self, now: float, why: str) -> None:
        """A quota keeps slots from the actors."""

    def scaled(self, now: float, actors: int, before: int, version: int) -> None:
        """So many actors take part from now on, and so many did ``before``."""

    def write(self, line: dict[str, Any]) -> None:
        """Something else happened."""


@dataclass(frozen=True)
class Ports:
    """What a coordinator is given; everything else of a run follows from it."""

    blocks: Mapping[int, ActorBlock]
    model: ObjectRegion
    """The region of the weights that actors act with."""
    objects: Mapping[str, ObjectRegion]
    """The regions of other objects that their learner publishes."""
    processes: Processes
    clock: Clock
    journal: JournalWriter
    row_source: RowSource
    """Makes the events that tell the triggers of new rows in ``blocks``."""
    evaluated: ObjectRegion | None = None
    """The region of the weights handed to the evaluator; None if there is none."""
    beside: Mapping[str, Mapping[str, ObjectRegion]] = field(default_factory=dict)
    """What the learners beside the first publish, weights and objects, by learner and object."""

    @classmethod
    def of(
        cls, node: RunMemory, processes: Processes, clock: Clock, journal: JournalWriter,
        row_source: RowSource | None = None,
    ) -> Ports:  # fmt: skip
        """Ports to a run's memory on this machine; by default actors commit to it themselves."""
        shipped = "transfer" in node.plan.triggers
        rows = row_source or Commits(node.blocks, shipped=shipped)
        beside = {name: block.objects for name, block in node.beside.items()}
        return cls(
            node.blocks, node.weights, node.objects, processes, clock, journal, rows,
            node.evaluated, beside,
        )  # fmt: skip

    def versions(self, outline: Outline, invocations: Invocations) -> dict[str, Versions]:
        """What each learner has published, first the one whose weights actors act with."""
        first, *others = outline.members.publishers
        found = {first.role: Versions(first, self.model, self.objects, outline, invocations)}
        for each in others:
            objects, front = {**self.beside[each.role]}, f"{each.role}/"
            weights = objects.pop(self.model.spec.name)
            found[each.role] = Versions(each, weights, objects, outline, invocations, front)
        found[first.role].awaits(found[name] for name in outline.read)
        return found
