"""The state of a run: its active actors, what is under way, and what was done."""

from __future__ import annotations

from typing import ClassVar

from artos.buffer.mailbox import LEARNER, actor_of
from artos.plan import Plan
from head.run.coordination.active_actors import ActiveActors, Scaler
from head.run.coordination.budget import Budget
from head.run.coordination.evaluations import Evaluations
from head.run.coordination.failures import FailureLimits
from head.run.coordination.ledger import Claims, Invocations, Progress, Rounds
from head.run.coordination.ports import Ports
from head.run.coordination.prewarming import Prewarming, forecast_of
from head.run.coordination.standstill import Standstill
from head.run.coordination.weight_versions import WeightVersions
from head.run.monitor import Monitor
from head.run.objects import Objects
from triggers.table import Table
from triggers.wiring import drawn_lag, max_lags, non_publishing_targets


class RunState:
    """The books of one workload; ``base_steps`` as in ``Progress``.

    ``announced`` is the newest version that the triggers know of, ``learned`` the newest that the
    learner has reported.
    """

    kept: ClassVar[tuple[str, ...]] = (
        "announced", "learned", "first_version", "monitor", "objects", "invocations", "claims",
        "rounds", "progress", "versions", "active_actors", "evaluations",
    )  # fmt: skip

    def __init__(
        self,
        plan: Plan,
        table: Table,
        ports: Ports,
        base_steps: int = 0,
        limits: FailureLimits | None = None,
        scaler: Scaler | None = None,
    ) -> None:
        self.plan = plan
        self.limits = limits or FailureLimits.within(plan.deadline)
        self.scaler = scaler or Scaler(plan)
        self.non_publishing = non_publishing_targets(plan)
        self.monitor, self.objects = Monitor(), Objects(ports.objects)
        self.invocations, self.claims = Invocations(), Claims(self.non_publishing)
        self.rounds = Rounds(ports.blocks, plan.steps)
        self.progress = Progress(plan, base_steps, self.rounds, self.claims)
        self.budget = Budget(
            plan, self.progress, self.monitor, self.invocations, self.non_publishing
        )
        self.versions = WeightVersions(
            ports.blocks,
            self.rounds,
            self.claims,
            max_lags(table),
            drawn_lag(table),
            each_round="actors.sync" not in plan.triggers,
        )
        self.first_version = max(0, ports.model.version)
        self.announced = self.learned = -1
        self.active_actors = ActiveActors(
            ports.members, ports.clock, self.scaler, self.first_version
        )
        self.evaluations = Evaluations(plan, ports.model, ports.evaluated)
        self.prewarming = Prewarming(table, forecast_of(plan.elastic.prewarm), ports.clock)
        self.standstill = Standstill(self.limits, ports.clock.now())

    def updates_through(self, firing: int) -> int:
        """Updates up to the one of this firing, whether or not the learner has reported it."""
        calls = self.invocations.through(LEARNER, firing)
        return self.monitor.updates + sum(call.trigger not in self.non_publishing for call in calls)

    def name_of(self, member: int) -> str:
        """A member's name in messages and records."""
        if member == self.evaluations.member:
            return "evaluator"
        return "learner" if member == LEARNER else f"actor {actor_of(member)}"

    def __repr__(self) -> str:
        steps = self.progress.steps
        return f"<RunState {steps} steps, version {self.announced}, {self.active_actors!r}>"
