"""A trigger that counts rows or episodes, whichever actors they are from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from artos.specs.keys import EPISODES
from triggers.base import Trigger
from triggers.checks import counts
from triggers.events import Arrived, Event, Firing, Published, Resumed, SampledBefore

if TYPE_CHECKING:
    from artos.runs.plan import Plan


@dataclass
class CountTrigger(Trigger):
    """Fires whenever ``rows`` more rows of all actors together have arrived; claims none of them.

    A row is one step of all environments of an actor. Rows that are sampled again, as they were
    lost with their node, count once. With ``episodes=n`` it fires with every n episodes that ended.
    A resumed run counts on from all that there were before.
    """

    rows: int | None = None
    episodes: int | None = None
    _counted: dict[int, int] = field(init=False, repr=False, compare=False, default_factory=dict)
    _ended: int = field(init=False, repr=False, compare=False, default=0)
    _more: int = field(init=False, repr=False, compare=False, default=0)
    _last: int = field(init=False, repr=False, compare=False, default=0)
    kept = ("_last",)

    def check(self, event: Event, now: float) -> Firing | None:
        """Only rows count, or episodes; those of an earlier part of the run were counted then."""
        match event:
            case Published(key="episodes_ended") if self.episodes is not None:
                more = max(0, event.version - self._ended)
                self._more = event.version % self.episodes if event.again else self._more + more
                self._ended = event.version
            case Arrived() if self.rows is not None:
                counted = self._counted.get(event.actor, 0)
                there = max(counted, *event.written.values())
                self._more += there - counted
                self._counted[event.actor] = there
            case SampledBefore() if self.rows is not None:
                # They may be fewer than at its last firing, as not all had been learned from.
                self._last = self._last or event.rows - event.rows % self.rows
                self._more = event.rows - self._last
            case Resumed():
                self._counted[event.actor] = event.rows
        if self._more < (many := self.rows or self.episodes or 1):
            return None
        self._more -= many
        self._last += many
        return Firing()

    def words(self) -> str:
        """How many rows or episodes it waits for."""
        what = f"{self.rows} rows" if self.episodes is None else f"{self.episodes} episodes"
        return f"every {what} of all actors together"

    def faults(self, plan: Plan) -> Iterator[str]:
        """A number that is none, or two of them."""
        yield from counts(1, rows=self.rows, episodes=self.episodes)
        if (self.rows is None) == (self.episodes is None):
            yield "counts rows or episodes: give one of rows=N and episodes=N"

    def objects_read(self) -> tuple[str, ...]:
        """The number of episodes, if it waits for that."""
        return () if self.episodes is None else (EPISODES,)
