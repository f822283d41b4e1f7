"""Ends a run whose actors are good enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from artos.protocol.invocations import Done, Invoke
from artos.specs.members import Member
from head.run.coordination.concern import NOTHING, Concern
from head.run.run import Run


class StopAtReturn(Concern[Run]):
    """No more is sampled once the mean return of the last 100 episodes is ``goal`` or more."""

    def __init__(self, run: Run, goal: float) -> None:
        super().__init__(run)
        self.goal = goal

    def answered(self, member: Member, call: Invoke, done: Done) -> Mapping[str, Any]:
        """A round may have brought episodes, which the records have counted by now."""
        reached = self.run.monitor.mean_return
        if reached is not None and reached >= self.goal:
            self.run.ending.end("return")
        return NOTHING
