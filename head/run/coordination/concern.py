"""What follows a run beside its coordinator: budget, sampling, recovery, … each in one file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from artos.protocol.invocations import Done, Invoke, Ready
from artos.specs.members import Member
from artos.system.exit_report import ExitReport
from triggers.events import Event, Firing

if TYPE_CHECKING:
    from head.run.coordination.coordinator import Coordinator

NOTHING: Mapping[str, Any] = MappingProxyType({})
R = TypeVar("R", bound="Coordinator")


class Concern(Generic[R]):
    """Follows ``run``; a subclass overrides the hooks that it needs.

    It may refuse a firing, end the run, or have a member invoked. It knows the run and its books,
    and no other concern. Hooks are called in the order in which ``connect`` lists concerns.
    """

    def __init__(self, run: R) -> None:
        self.run = run

    def begin(self) -> None:
        """The run begins, or goes on from a snapshot."""

    def admits(self, firing: Firing) -> bool:
        """Whether a firing may become invocations; one that may not is kept (``withheld``)."""
        return True

    def happened(self, event: Event) -> None:
        """The triggers are about to be checked against an event."""

    def invoked(self, member: Member, call: Invoke) -> None:
        """A member was sent an invocation."""

    def ready(self, member: Member, ready: Ready, seconds: float | None) -> None:
        """A member is set up, ``seconds`` after it was asked for; None: it was not asked for."""

    def answered(self, member: Member, call: Invoke, done: Done) -> Mapping[str, Any]:
        """A member carried out an invocation; returns what the journal is to say of that."""
        return NOTHING

    def failed(self, member: Member, death: ExitReport) -> None:
        """A member's process is gone; what it had finished is booked."""

    def trained(self) -> bool:
        """Actors and learner are done with all there is to do: whether this concern is, too.

        Asked more than once.
        """
        return True

    def tick(self) -> None:
        """Time passed. Called about once a second, and when a trigger is due; must be cheap."""


def overriding(
    hook: Callable[..., Any], concerns: Iterable[Concern[Any]]
) -> list[Callable[..., Any]]:
    """This hook of the concerns that override it, as events are many."""
    name = hook.__name__
    return [getattr(c, name) for c in concerns if getattr(type(c), name) is not hook]
