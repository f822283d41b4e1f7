"""A trigger on the value of an object that the learner publishes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from artos.specs.keys import EPISODES
from triggers.base import Trigger
from triggers.checks import unpublished
from triggers.events import Event, Firing, Published

if TYPE_CHECKING:
    from artos.runs.plan import Plan


@dataclass
class ValueTrigger(Trigger):
    """Fires when a published number comes to lie above ``above``, or below ``below``.

    It fires once, and again when the number has been elsewhere. NaN lies nowhere. Of several
    versions published between two looks at the buffer only the value of the newest is seen.
    """

    key: str
    above: float | None = None
    below: float | None = None
    _side: int = field(init=False, repr=False, compare=False, default=0)  # 1 above, -1 below
    kept = ("_side",)

    def check(self, event: Event, now: float) -> Firing | None:
        """Only a version of its key whose value is known satisfies it."""
        match event:
            case Published(key=self.key, value=(value,)):
                was, self._side = self._side, self._side_of(value)
                # Episodes that ended in an earlier part of the run came there then.
                before = event.again and self.key == EPISODES
                if self._side not in (0, was) and not before:
                    return Firing(version=event.version)
        return None

    def _side_of(self, value: float) -> int:
        above = self.above is not None and value > self.above
        below = self.below is not None and value < self.below
        return above - below

    def words(self) -> str:
        """The number and its bounds."""
        bounds = [
            f"{word} {bound:g}"
            for word, bound in (("above", self.above), ("below", self.below))
            if bound is not None
        ]
        return f"{self.key} {' or '.join(bounds)}, each time that it comes there"

    def faults(self, plan: Plan) -> Iterator[str]:
        """An object that nobody publishes or that is no number, and bounds that are none."""
        yield from unpublished(self.key, plan)
        spec = plan.every_object.get(plan.object_name(self.key))
        if spec and [each.shape for each in spec.arrays] not in ([()], [(1,)]):
            yield f"{self.key} is not one number: publish one that says what to wait for"
        bounds = {"above": self.above, "below": self.below}
        if all(bound is None for bound in bounds.values()):
            yield "waits for no value: give above, below or both"
        for name, bound in bounds.items():
            if bound is not None and not (isinstance(bound, int | float) and math.isfinite(bound)):
                yield f"{name} must be a finite number, not {bound!r}"

    def complete(self, target: str, plan: Plan, table: Mapping[str, Trigger]) -> None:
        """The name that its key has in events."""
        self.key = plan.object_name(self.key)

    def objects_read(self) -> tuple[str, ...]:
        """Its key."""
        return (self.key,)
