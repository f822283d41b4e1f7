"""What the learner may still be asked for once its run samples no more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from artos.protocol.invocations import Done, Invoke
from artos.specs.members import Member
from head.run.coordination.concern import NOTHING, Concern
from head.run.run import Run
from triggers.events import Arrived, Ended, Event, Firing
from triggers.targets import parsed


class Afterwards(Concern[Run]):
    """Admits what hands over rows that are left, and what follows from that.

    Triggers may fire without rows for ever, for example on each version that their own firing
    makes. So no target follows from itself, nor from what followed from it.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._draws = {draw.target for draw in run.plan.draws if draw.live}
        self._chains: dict[int, tuple[str, ...]] = {}
        """Of firings without rows that are under way: the targets that led to them, and theirs."""
        self._last: tuple[tuple[str, ...], ...] = ()
        """The chain of what others may follow that happened last: a learner's answer, or rows."""

    def admits(self, firing: Firing) -> bool:
        """Whether it hands over rows, or follows from what is under way and not from itself."""
        target = firing.trigger
        if not parsed(target).learns or self._hands_over(firing):
            return True
        before: tuple[str, ...] | None = ()
        if not self.run.ending.samples:
            before = next((chain for chain in self._causes() if target not in chain), None)
        if before is None:
            return False
        self._chains[firing.number] = (*before, target)
        return True

    def happened(self, event: Event) -> None:
        """Rows may have come after all invocations are answered, and something follows them."""
        if isinstance(event, Arrived | Ended):
            self._last = ((),)

    def _hands_over(self, firing: Firing) -> bool:
        """Whether it has rows that nobody was handed before; draws keep to a ratio of their own."""
        draws = bool(firing.keys) and firing.trigger in self._draws
        claimed = self.run.claims.claimed
        return draws or any(
            claim.stop > claimed(firing.trigger, claim.actor, claim.env) for claim in firing.claims
        )

    def _causes(self) -> Iterator[tuple[str, ...]]:
        for member, call in self.run.invocations:
            if self.run.ending.works([(member, call)], but_pulls=True):
                yield self._chains.get(call.firing, ())
        yield from self._last

    def answered(self, member: Member, call: Invoke, done: Done) -> Mapping[str, Any]:
        """What follows from it is fired now, or was by its version."""
        if self.run.members.role(member).publishes:
            self._last = (self._chains.pop(call.firing, ()),)
        return NOTHING
