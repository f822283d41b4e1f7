"""What members did, as the monitor counts it and the journal has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from artos.protocol.invocations import Done, Invoke, Ready
from artos.specs.members import Member
from head.run.coordination.concern import NOTHING, Concern
from head.run.run import Run


class Records(Concern[Run]):
    """Counts episodes and restarts, and sums up where time went."""

    def ready(self, member: Member, ready: Ready, seconds: float | None) -> None:
        """A member is set up; one that was not asked for was restarted by its process manager."""
        run = self.run
        if seconds is None:
            run.monitor.restarts += 1
        if member.role in run.learners and not member.rank:
            run.monitor.devices[member.role].name = ready.device
        run.ports.journal.ready(run.ports.clock.now(), str(member), ready, seconds)

    def answered(self, member: Member, call: Invoke, done: Done) -> Mapping[str, Any]:
        """A member's answer in numbers."""
        run, monitor, role = self.run, self.run.monitor, self.run.members.role(member)
        set_ = {"configuration": call.configuration} if call.configuration else {}
        if role.publishes:
            facts = {"version": done.version, **set_, "times": done.times}
            if done.cpu:
                facts["cpu"] = round(done.cpu, 6)
            if done.nothing:
                monitor.empty_draws += 1
                facts["nothing"] = done.nothing
            if done.nothing or call.trigger in run.non_publishing:
                monitor.helped(member, done.times)
            elif member.role == run.first.member.role:
                monitor.learned(member, done.metrics, done.times)
            else:
                monitor.helped(member, done.times)
                monitor.beside[member.role].metrics = {**done.metrics}
            return facts
        if not role.samples:
            return NOTHING
        monitor.sampled(
            member, done.returns, done.lengths, done.times, run.steps, self._agents(done),
            done.untold,
        )  # fmt: skip
        monitor.stepped(run.ports.clock.now() - done.seconds)
        costs = {"slot": done.slot, "waited": done.waited, "restored": done.restored}
        paid: dict[str, Any] = {
            name: round(seconds, 6) for name, seconds in costs.items() if seconds
        }
        if done.rested:
            paid["rested"] = [
                (r.state, round(r.before, 6), round(r.seconds, 6)) for r in done.rested
            ]
        return {"version": done.version, "stop": call.stop, **set_, **paid}

    def _agents(self, done: Done) -> list[str]:
        """Of which agent of its game each episode was."""
        names = self.run.plan.agent_names
        return [names[number] for number in done.agents] if names else []
