"""A trigger that counts rows, whichever actors they are from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from triggers.base import Trigger
from triggers.checks import counts
from triggers.events import Arrived, Event, Firing, Resumed, Rewound

if TYPE_CHECKING:
    from artos.runs.plan import Plan


@dataclass
class EveryNRows(Trigger):
    """Fires whenever ``n`` more rows of all actors together arrived; claims none."""

    n: int
    _rows: dict[int, int] = field(init=False, repr=False, compare=False, default_factory=dict)
    _new: int = field(init=False, repr=False, compare=False, default=0)

    def check(self, event: Event, now: float) -> Firing | None:
        """Only rows count; those of before a resumed run were counted then."""
        match event:
            case Arrived():
                self._count(event.actor, max(event.written.values()))
            case Rewound():
                self._count(event.actor, event.rows)
            case Resumed():
                self._rows[event.actor] = event.rows
        if self._new < self.n:
            return None
        self._new -= self.n
        return Firing()

    def _count(self, actor: int, rows: int) -> None:
        self._new += rows - self._rows.get(actor, 0)
        self._rows[actor] = rows

    def words(self) -> str:
        """How many rows it waits for."""
        return f"every {self.n} rows, of whichever actors"

    def faults(self, plan: Plan) -> Iterator[str]:
        """A number of rows that is none."""
        return counts(1, n=self.n)
