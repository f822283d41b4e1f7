"""A trigger that counts rows, whichever actors they are from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from triggers.base import Trigger
from triggers.checks import counts
from triggers.events import Arrived, Event, Firing, Resumed

if TYPE_CHECKING:
    from artos.runs.plan import Plan


@dataclass
class CountTrigger(Trigger):
    """Fires whenever ``rows`` more rows of all actors together have arrived; claims none of them.

    A row is one step of all environments of an actor. Rows that are sampled again, as they were
    lost with their node, count once.
    """

    rows: int
    _counted: dict[int, int] = field(init=False, repr=False, compare=False, default_factory=dict)
    _more: int = field(init=False, repr=False, compare=False, default=0)

    def check(self, event: Event, now: float) -> Firing | None:
        """Only rows count; those of an earlier part of the run were counted then."""
        match event:
            case Arrived():
                counted = self._counted.get(event.actor, 0)
                there = max(counted, *event.written.values())
                self._more += there - counted
                self._counted[event.actor] = there
            case Resumed():
                self._counted[event.actor] = event.rows
        if self._more < self.rows:
            return None
        self._more -= self.rows
        return Firing()

    def words(self) -> str:
        """How many rows it waits for."""
        return f"every {self.rows} rows of all actors together"

    def faults(self, plan: Plan) -> Iterator[str]:
        """A number of rows that is none."""
        return counts(1, rows=self.rows)
