"""What follows a run beside its coordinator: budget, sampling, recovery, … each in one file."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from artos.protocol.invocations import Done, Invoke
from artos.system.exit_report import ExitReport
from triggers.events import Event, Firing

if TYPE_CHECKING:
    from head.run.coordination.coordinator import Coordinator

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Concern:
    """Follows ``run``; a subclass overrides the hooks that it needs.

    It may refuse a firing, end the run, or have a member invoked. It knows the coordinator and its
    books, and no other concern. Hooks are called in the order in which ``connect`` lists concerns.
    """

    def __init__(self, run: Coordinator) -> None:
        self.run = run

    def begin(self) -> None:
        """The run begins, or goes on from a snapshot."""

    def admits(self, firing: Firing) -> bool:
        """Whether a firing may become invocations; one that may not is kept (``withheld``)."""
        return True

    def happened(self, event: Event) -> None:
        """The triggers are about to be checked against an event."""

    def invoked(self, member: int, call: Invoke) -> None:
        """A member was sent an invocation."""

    def answered(self, member: int, call: Invoke, done: Done) -> Mapping[str, Any]:
        """A member carried out an invocation; returns what the journal is to say of that."""
        return NOTHING

    def failed(self, member: int, death: ExitReport) -> None:
        """A member's process is gone; what it had finished is booked."""

    def trained(self) -> None:
        """Actors and learner are done with all there is to do; may be called more than once."""

    @property
    def settled(self) -> bool:
        """Whether a run that is trained need not wait for this concern."""
        return True

    def tick(self) -> None:
        """Time passed. Called about once a second, and when a trigger is due; must be cheap."""
