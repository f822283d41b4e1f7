"""The trigger of a server: requests of actors are answered together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from triggers.base import Requested, Trigger
from triggers.checks import counts, is_within, plural
from triggers.events import Event, Firing
from triggers.targets import parsed

if TYPE_CHECKING:
    from artos.runs.plan import Plan


@dataclass
class RequestTrigger(Trigger):
    """Fires once ``n`` requests of actors wait, or ``wait`` seconds after the first of them.

    A firing is for all that wait by then, so with ``n=1`` a server answers at once when it is free,
    and together what came while it was not. It is checked where the requests are: in the server's
    own process.
    """

    n: int = 1
    wait: float = 0.0
    _waiting: int = field(init=False, repr=False, compare=False, default=0)
    _since: float = field(init=False, repr=False, compare=False, default=0.0)

    def words(self) -> str:
        """How many requests it waits for, and how long."""
        if self.n == 1:
            return "each request of an actor, with all others that wait by then"
        return f"{self.n} requests of actors, or {self.wait * 1e3:g} ms after the first of them"

    def faults(self, plan: Plan) -> Iterator[str]:
        """Numbers that are none."""
        yield from counts(1, n=self.n)
        if not (self.wait == 0 or is_within(self.wait, 0, math.inf)) or self.wait == math.inf:
            yield f"wait must be a number of seconds, 0 or more, not {self.wait!r}"
        elif self.n > 1 and not self.wait:
            yield (
                f"waits for n={self.n} requests however long that takes, and an actor that ends "
                "its round sends none: set wait, in seconds, or n=1"
            )

    def misfit(self, target: str) -> str:
        """It fires what answers, and nobody else."""
        if parsed(target).answers:
            return ""
        return 'a RequestTrigger fires a server: write "NAME.answer": RequestTrigger()'

    def check(self, event: Event, now: float) -> Firing | None:
        """Count requests; a firing is for all that were counted."""
        if isinstance(event, Requested):
            self._since = self._since if self._waiting else now
            self._waiting += 1
        if not self._waiting or (self._waiting < self.n and now < self._since + self.wait):
            return None
        self._waiting = 0
        return Firing()

    def due(self) -> float | None:
        """When the first request has waited for long enough."""
        return self._since + self.wait if self._waiting else None


def request_faults(plan: Plan, table: Mapping[str, Trigger]) -> Iterator[str]:
    """What is wrong with the triggers that answer, by how many requests there can be."""
    for server in plan.servers:
        target = f"{server.name}.answer"
        most = plan.actors * server.seats
        for part in table[target].parts():
            if (n := getattr(part, "n", None)) is not None and isinstance(n, int) and n > most:
                yield (
                    f"triggers[{target!r}]: waits for n={n} requests, but there are never more "
                    f"than {most} ({plural(plan.actors, 'actor')}, {server.seats} at once of "
                    "each), so only its wait would fire it: lower n (batch), or raise actors or "
                    "splits"
                )
