"""The climbing learner, which publishes how many rows it has seen: triggers raise the level by it.

``Beyond`` is a user's trigger, with which a resumed run goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from climbing import Climber
from climbing import workload as climbing

from artos import ObjectKey, Workload
from triggers import (
    CountTrigger,
    Firing,
    ObjectKeyTrigger,
    Once,
    SetTrigger,
    Trigger,
    UpdateTrigger,
    ValueTrigger,
)
from triggers.events import Event, Published


@dataclass
class Beyond(Trigger):
    """Fires with the first version of the height that is beyond a bound."""

    above: float
    _was: bool = field(init=False, repr=False, compare=False, default=False)
    kept = ("_was",)

    def check(self, event: Event, now: float) -> Firing | None:
        match event:
            case Published(key="height", value=(value,)):
                was, self._was = self._was, value > self.above
                return Firing() if self._was and not was else None
        return None

    def objects_read(self) -> tuple[str, ...]:
        return ("height",)


WHEN: dict[str, Trigger] = {
    "value": ValueTrigger("height", above=50),
    "version": ObjectKeyTrigger("height", every=1000),
    "update": UpdateTrigger(1000),
    "own": Beyond(50),
    "once": Once(CountTrigger(rows=100)),
    "rows": CountTrigger(rows=500),
}


class Rising(Climber):
    """``evaluate`` is a method like any other."""

    objects = (ObjectKey("height"),)
    non_publishing = ("evaluate",)

    def setup(self, context: Any) -> None:
        super().setup(context)
        self.publish, self.evaluated = context.publish, 0

    def update(self, batch: Any, call: Any) -> dict[str, float]:
        metrics = super().update(batch, call)
        self.publish("height", metrics["rows"])
        return metrics | {"evaluated": self.evaluated}

    def evaluate(self, batch: Any, call: Any) -> dict[str, float]:
        assert batch is None
        self.evaluated += 1
        return {}


def workload(when: str = "value", total_steps: int = 320, checkpoint: Any = "model") -> Workload:
    """Two actors make 32 rows an update."""
    made = climbing(total_steps=total_steps, checkpoint=checkpoint)
    rises = {"set.env.level": SetTrigger(WHEN[when], (1, 2, 3))}
    looks = {"learner.evaluate": UpdateTrigger(4)}
    return replace(
        made, name="rising", learner=Rising(), triggers={**made.triggers, **rises, **looks}
    )
