"""What a run may make in all, how much of it is used, and what ends it."""

from __future__ import annotations

from collections.abc import Container

from artos.buffer.mailbox import LEARNER
from artos.plan import Plan
from artos.protocol.invocations import Invoke
from head.run.coordination.ledger import Invocations, Progress
from head.run.monitor import Monitor

STEPS, UPDATES = "total_steps", "total_updates"
"""The settings of a workload that limit a run; 0 is no limit."""


class Budget:
    """Environment steps, updates, or both: what is used up first ends the run.

    An update that is handed rows is certain to be made. One that draws rows may find none, so it
    counts once it is made.
    """

    def __init__(
        self,
        plan: Plan,
        progress: Progress,
        monitor: Monitor,
        invocations: Invocations,
        non_publishing: Container[str],
    ) -> None:
        self._steps, self._updates = plan.total_steps, plan.total_updates
        self._progress, self._monitor = progress, monitor
        self._invocations, self._non_publishing = invocations, non_publishing

    @property
    def spent(self) -> str:
        """The setting whose limit is reached, so that no more is sampled; "" while none is."""
        if self._updates and self._begun(certain=True) >= self._updates:
            return UPDATES
        if self._steps and self._progress.granted >= self._steps:
            return STEPS
        return ""

    @property
    def used(self) -> float:
        """The share that is used, 0 to 1: of the steps learned from or of the updates begun."""
        steps = self._progress.consumed / self._steps if self._steps else 0.0
        updates = self._begun() / self._updates if self._updates else 0.0
        return min(1.0, max(steps, updates))

    def admits(self, trigger: str) -> bool:
        """Whether the learner may be invoked for this trigger."""
        free = not self._updates or trigger in self._non_publishing
        return free or self._begun() < self._updates

    def _begun(self, *, certain: bool = False) -> int:
        calls = self._invocations.of(LEARNER)
        return self._monitor.updates + sum(self._counts(call, certain) for call in calls)

    def _counts(self, call: Invoke, certain: bool) -> bool:
        return call.trigger not in self._non_publishing and (bool(call.claims) or not certain)

    def __repr__(self) -> str:
        return f"<Budget {self.used:.0%} used, spent={self.spent!r}>"
