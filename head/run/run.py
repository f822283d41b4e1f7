"""A run: its coordinator, and what those that follow it share."""

from __future__ import annotations

from typing import TypeVar

from artos.runs.plan import Plan
from artos.specs.configuration import Configuration
from head.run.coordination.concern import Concern
from head.run.coordination.coordinator import Coordinator
from head.run.coordination.outline import Outline
from head.run.coordination.ports import Ports
from head.run.monitor import Monitor
from triggers.pacing import non_publishing_targets
from triggers.targets import parsed

Kind = TypeVar("Kind", bound="Concern[Run]")


class Run(Coordinator):
    """The coordinator of a plan, whose concerns count what happens; ``connect`` makes one.

    ``base_steps`` were made by earlier parts of the run.
    """

    def __init__(self, plan: Plan, ports: Ports, base_steps: int = 0) -> None:
        super().__init__(outline(plan), ports, base_steps)
        self.plan, self.monitor = plan, Monitor()
        self.first_version = self.first.began
        self.idle = 0.0
        """Seconds for which an actor will about wait for its next round."""
        self.quota = ""
        """Which quota keeps slots from the actors."""
        self.configuration = Configuration()
        """The settings that users have changed since the run began."""

    def concern(self, kind: type[Kind]) -> Kind:
        """The concern of this kind."""
        return next(each for each in self.concerns if isinstance(each, kind))

    @property
    def steps(self) -> int:
        """Environment steps committed."""
        return self.progress.steps

    def limited(self, quota: str) -> None:
        """A quota keeps slots from the actors, "" if none does any more."""
        if quota != self.quota:
            self.quota = quota
            self.ports.journal.limited(self.ports.clock.now(), quota)

    def waits(self) -> dict[str, str]:
        """What each member waits for."""
        return self.roster.waits(self.actors, self.version + 1, self.invocations)


def outline(plan: Plan) -> Outline:
    """What the coordinator of a plan has to know of it."""
    return Outline(
        steps=plan.steps,
        envs=plan.envs,
        parts={c.name: plan.rows_of(parsed(c.name).role).envs for c in plan.consumers},
        total_steps=plan.total_steps,
        total_updates=plan.total_updates,
        claims=bool(plan.consumers),
        waits_for_room=plan.on_full == "wait",
        non_publishing=non_publishing_targets(plan),
        read=plan.sent_learners[1:],
        members=plan.members,
    )
