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
        """Whether an update is left for this firing; those of the first learner are counted."""
        target, updates = firing.trigger, self.run.plan.total_updates
        if not (updates or self.run.plan.beside):
            return True
        if not parsed(target).learns or target in self.run.non_publishing:
            return True
        if parsed(target).role != self.run.first.member.role:
            return self._admits_other(firing)
        return not updates or self.run.progress.begun() < updates

    def _admits_other(self, firing: Firing) -> bool:
        """Once there are no more rows, other learners are handed those that are left.

        After the first one's last update these are the rows that it learns from meanwhile.
        """
        ending, last = self.run.ending, self.run.invocations.of(self.run.first.member)
        return ending.samples or bool(firing.claims and (last or not ending.learned))

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
