"""The climbing learner with a method for each occasion: numbers, rows, first times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from climbing import Climber
from climbing import workload as climbing

from artos import ObjectKey, Workload
from triggers import CountTrigger, First, Once, Trigger, UpdateTrigger, ValueTrigger

ROWS = 96
OCCASIONS: dict[str, Trigger] = {
    "learner.once": Once(CountTrigger(rows=100)),
    "learner.first": First(UpdateTrigger(2), 3),
    "learner.beyond": ValueTrigger("height", above=150),
    "learner.counted": CountTrigger(rows=ROWS),
}


class Occasional(Climber):
    """Publishes how many rows it has seen, and does nothing on any other occasion."""

    objects = (ObjectKey("height"),)
    non_publishing = tuple(target.removeprefix("learner.") for target in OCCASIONS)

    def setup(self, context: Any) -> None:
        super().setup(context)
        self.publish = context.publish

    def update(self, batch: Any, call: Any) -> dict[str, float]:
        metrics = super().update(batch, call)
        self.publish("height", metrics["rows"])
        return metrics | {"shown": self.shown}

    def once(self, batch: Any, call: Any) -> dict[str, float]:
        return {}

    first = beyond = counted = once


def workload(total_steps: int = 6000, episodes: int = 2) -> Workload:
    made = climbing(total_steps=total_steps, episodes=episodes)
    return replace(
        made, name="occasions", learner=Occasional(), triggers={**made.triggers, **OCCASIONS}
    )
