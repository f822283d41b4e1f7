"""Pulls of weights: however often one is asked for, a busy actor has few to make."""

from __future__ import annotations

from collections.abc import Callable

from artos.protocol.invocations import Invoke
from head.run.coordination.ledger import Invocations


class PullQueue:
    """Keeps pulls from piling up in front of an actor that is in a round, or has not started yet.

    An actor binds the newest weights there are, so while it has a pull to make another one is kept
    back. If the first turns out to have been made too early, that one follows: when it is answered,
    or before the next round, whichever comes first.
    """

    def __init__(self, invocations: Invocations, invoke: Callable[[int, Invoke], None]) -> None:
        self._invocations, self._invoke = invocations, invoke
        self._kept: dict[int, Invoke] = {}

    def ask(self, member: int, pull: Invoke) -> None:
        """The actor is to bind the newest weights before what it is asked for next."""
        last = self._invocations.last(member)
        if last is None or last.stop:
            self._invoke(member, pull)
        else:
            self._kept[member] = pull

    def before(self, member: int, sampling: Invoke) -> None:
        """Grant the actor a round, and first the pull that was kept back."""
        if (pull := self._kept.pop(member, None)) is not None:
            self._invoke(member, pull)
        self._invoke(member, sampling)

    def answered(self, member: int, behind: int) -> None:
        """The actor answered, with weights that are so many versions old."""
        if member in self._kept and self._invocations.last(member) is None:
            pull = self._kept.pop(member)
            if behind > 0:
                self._invoke(member, pull)
