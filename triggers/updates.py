"""A trigger that counts updates, however many of them make a version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from artos.runs.plan import Plan
from artos.specs.keys import MODEL_PARAM
from triggers.base import Trigger
from triggers.checks import counts
from triggers.events import Event, Firing, Published


@dataclass
class UpdateTrigger(Trigger):
    """Fires on the first version of the weights it sees, and with every ``every``-th update.

    If several updates make one version, it fires on the first version that holds the update.
    """

    every: int
    _next: int = field(init=False, repr=False, compare=False, default=0)

    def check(self, event: Event, now: float) -> Firing | None:
        """Only a new version of the weights satisfies it."""
        match event:
            case Published(key="model_param") if event.updates >= self._next:
                # Multiples of ``every``, wherever a resumed run goes on.
                self._next = (event.updates // self.every + 1) * self.every
                return Firing(version=event.version)
        return None

    def words(self) -> str:
        """The updates it waits for."""
        return f"the first version, and updates {self.every}, {2 * self.every}, ..."

    def faults(self, plan: Plan) -> Iterator[str]:
        """``every`` is a number."""
        return counts(1, every=self.every)

    def objects_read(self) -> tuple[str, ...]:
        """The weights."""
        return (MODEL_PARAM,)
