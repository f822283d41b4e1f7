"""What members did, as the monitor counts it and the journal has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from artos.buffer.mailbox import LEARNER, actor_of
from artos.protocol.invocations import Done, Invoke, Ready
from head.run.coordination.concern import NOTHING, Concern
from head.run.run import Run


class Records(Concern[Run]):
    """Counts episodes and restarts, and sums up where time went."""

    def ready(self, member: int, ready: Ready, seconds: float | None) -> None:
        """A member is set up; one that was not asked for was restarted by its process manager."""
        run = self.run
        if seconds is None:
            run.monitor.restarts += 1
        if member == LEARNER:
            run.monitor.device = ready.device
        run.ports.journal.ready(run.ports.clock.now(), run.roster.name_of(member), ready, seconds)

    def answered(self, member: int, call: Invoke, done: Done) -> Mapping[str, Any]:
        """A member's answer in numbers."""
        if member == LEARNER:
            return self._learned(call, done)
        return NOTHING if member == self.run.plan.evaluator else self._sampled(member, done)

    def _learned(self, call: Invoke, done: Done) -> Mapping[str, Any]:
        monitor = self.run.monitor
        facts = {"version": done.version, "times": done.times}
        if done.nothing:
            monitor.empty_draws += 1
            facts["nothing"] = done.nothing
        if done.nothing or call.trigger in self.run.non_publishing:
            monitor.helped(done.times)
        else:
            monitor.learned(done.metrics, done.times)
        return facts

    def _sampled(self, member: int, done: Done) -> Mapping[str, Any]:
        run, monitor = self.run, self.run.monitor
        monitor.sampled(actor_of(member), done.returns, done.lengths, done.times, run.steps)
        monitor.stepped(run.ports.clock.now() - done.seconds)
        costs = {"waited": done.waited, "restored": done.restored}
        facts = {name: round(seconds, 6) for name, seconds in costs.items() if seconds}
        return {"version": done.version, **facts}
