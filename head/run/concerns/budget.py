"""What a run may make in all, and what ends it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from artos.protocol.invocations import Done, Invoke
from artos.specs.members import Member
from head.run.coordination.concern import NOTHING, Concern
from head.run.run import Run
from triggers.events import Firing
from triggers.targets import parsed

STEPS, UPDATES = "total_steps", "total_updates"
"""The settings of a workload that limit a run; 0 is no limit."""


class Budget(Concern[Run]):
    """Environment steps, updates, or both: what is used up first ends the run."""

    def begin(self) -> None:
        """A resumed run may have used up its budget before."""
        self._see()

    def admits(self, firing: Firing) -> bool:
        """Whether an update is left for this firing."""
        target, updates = firing.trigger, self.run.plan.total_updates
        if not updates or not parsed(target).learns or target in self.run.non_publishing:
            return True
        return self.run.progress.begun() < updates

    def invoked(self, member: Member, call: Invoke) -> None:
        """An update began, or a round was granted."""
        self._see()

    def answered(self, member: Member, call: Invoke, done: Done) -> Mapping[str, Any]:
        """An update was made, which may not have been certain before."""
        self._see()
        return NOTHING

    def _see(self) -> None:
        plan, progress = self.run.plan, self.run.progress
        if plan.total_updates and progress.begun(certain=True) >= plan.total_updates:
            self.run.ending.end(UPDATES, updates=True)
        elif plan.total_steps and progress.granted >= plan.total_steps:
            self.run.ending.end(STEPS)
