"""Stand-ins for what a run has around its coordinator: members of this process, and no journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from artos.clock import SystemClock
from artos.specs.members import Member, Members
from head.run.coordination.ports import Ports
from head.run.coordination.rows import Commits
from triggers.engine import direct_passers

if TYPE_CHECKING:
    from artos.buffer.actor_block import ActorBlock
    from artos.buffer.object_region import ObjectRegion
    from artos.protocol.invocations import Invoke, Ready
    from triggers.events import Firing


class InProcess:
    """Members that are always here: no one starts or ends them. Implements ``Processes``.

    ``ask`` is called with a member and what it is to carry out; it must not carry it out at once,
    as the coordinator books an invocation only after it was sent.
    """

    def __init__(self, ask: Callable[[Member, Invoke], None], members: Members) -> None:
        self.passers = direct_passers(ask, members)

    def waits_for_slot(self, member: Member) -> bool:
        """False: there are no slots."""
        return False

    def unplaced(self, member: Member) -> str:
        """Return "": every member has a place."""
        return ""

    def end(self, member: Member) -> None:
        """Do nothing: there is no process."""

    def start(self, member: Member) -> None:
        """Do nothing: there is no process."""

    def prepare(self, member: Member, within: float = 0.0) -> None:
        """Do nothing: there is no process."""

    def retire(self, member: Member) -> None:
        """Do nothing: the member holds nothing that others wait for."""


class NoJournal:
    """Nothing is recorded. Implements ``JournalWriter``."""

    def fired(self, now: float, firing: Firing) -> None:
        """Do nothing."""

    def take_back(self, firing: int) -> None:
        """Do nothing."""

    def done(
        self, now: float, firing: int, member: str, *, seconds: float = 0.0, **facts: Any
    ) -> None:
        """Do nothing."""

    def ready(self, now: float, member: str, ready: Ready, seconds: float | None) -> None:
        """Do nothing."""

    def write(self, line: dict[str, Any]) -> None:
        """Do nothing."""


def in_process(
    blocks: Mapping[int, ActorBlock],
    weights: ObjectRegion,
    ask: Callable[[Member, Invoke], None],
) -> Ports:
    """Ports for a learner and the actors of these blocks, all in this process.

    ``ask`` is called with a member and an invocation, which is to be carried out later; the answer
    goes to ``Coordinator.receive``.
    """
    members = InProcess(ask, Members.of_run(len(blocks)))
    rows = Commits(blocks, shipped=False)
    return Ports(blocks, weights, {}, members, SystemClock(), NoJournal(), rows)
