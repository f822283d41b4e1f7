"""A2C from ``my_algo.py`` with a trigger of one's own: actors pull new weights in turn."""

from dataclasses import dataclass, field, replace

from my_algo import KEYS, workload

from artos import Workload
from triggers import DataKeyTrigger, Firing, ObjectKeyTrigger, TimeTrigger, Trigger
from triggers.events import Event, Published


@dataclass
class TakeTurns(Trigger):
    """On every new version one actor pulls it, one after the other."""

    actors: int
    _next: int = field(init=False, repr=False, default=0)

    def check(self, event: Event, now: float) -> Firing | None:
        """Fire for the next actor whenever a version is published."""
        if not isinstance(event, Published):
            return None
        actor, self._next = self._next, (self._next + 1) % self.actors
        return Firing(actors=(actor,), version=event.version)


def staggered(actors: int = 4, total_steps: int = 20_000) -> Workload:
    """Sampling does not wait for weights, updates are at least 5 ms apart."""
    base = workload(actors=actors, total_steps=total_steps)
    enough = DataKeyTrigger(KEYS, n=actors, size=base.steps)
    table = {
        "learner.update": enough & TimeTrigger(0.005),
        "actors.sync": TakeTurns(actors),
        "actors.sample": ObjectKeyTrigger("model_param"),
    }
    return replace(base, name="a2c-staggered", triggers=table)
