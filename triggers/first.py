"""A trigger that lets another fire a few times and never again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from triggers.base import Trigger
from triggers.checks import counts
from triggers.events import Event, Firing, Published

if TYPE_CHECKING:
    from artos.runs.plan import Plan


@dataclass
class First(Trigger):
    """Fires with the first ``times`` firings of ``condition``, those before a resume included."""

    condition: Trigger
    times: int = 1
    _fired: int = field(init=False, repr=False, compare=False, default=0)
    kept = ("_fired",)

    def check(self, event: Event, now: float) -> Firing | None:
        """As its condition, for as long as it has firings left."""
        if self._fired and isinstance(event, Published) and event.again:  # it was counted then
            if any(part.by_rounds for part in self.condition.parts()):
                return self.condition.check(event, now)  # but its round was lost with the run
            self.overlook(event, now)
            return None
        if self._fired >= self.times:
            return None
        firing = self.condition.check(event, now)
        self._fired += firing is not None
        return firing

    def overlook(self, event: Event, now: float) -> None:
        """What its condition fires on it does not count."""
        self.condition.overlook(event, now)

    def due(self) -> float | None:
        """When its condition is, for as long as it has firings left."""
        return self.condition.due() if self._fired < self.times else None

    @property
    def name(self) -> str:
        """Itself and its condition."""
        return f"{type(self).__name__} {self.condition.name}"

    def words(self) -> str:
        """Its condition, and how often."""
        times = "once" if self.times == 1 else f"the first {self.times} times"
        return f"{times}: {self.condition.words()}"

    def faults(self, plan: Plan) -> Iterator[str]:
        """A number that is none, and rows that would be claimed no more."""
        yield from counts(1, times=self.times)
        if any(part.demand or part.draw for part in self.condition.parts()):
            yield (
                f"{self.condition.name} hands over rows, which nobody takes once it fires no more: "
                f"use it without {type(self).__name__}"
            )

    def objects_read(self) -> tuple[str, ...]:
        """Those of its condition."""
        return self.condition.objects_read()

    def parts(self) -> tuple[Trigger, ...]:
        """Itself and the primitives of its condition."""
        return (self, *self.condition.parts())


@dataclass
class Once(First):
    """Fires with the first firing of ``condition`` and never again."""

    times: int = field(init=False, default=1)
