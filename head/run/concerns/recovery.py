"""Members that die or do not answer are journalled, restarted and sent their work again."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from artos.protocol.invocations import Done, Invoke
from artos.specs.members import Member
from artos.system.exit_report import SLOW, ExitReport
from head.run.concerns.failures import FailureLimits, Failures
from head.run.coordination.concern import NOTHING, Concern
from head.run.run import Run

_log = logging.getLogger(__name__)
_LOOKS = 40
"""How many times within the limit for an answer the run looks which members wait for others.

If a wait ends within two looks of its invocation, so much of it may count as time to answer.
"""


class Recovery(Concern[Run]):
    """Restarts members that died, after a pause if they did so before, and those that hang."""

    def __init__(self, run: Run, limits: FailureLimits) -> None:
        super().__init__(run)
        self.limits, self._failures = limits, Failures(limits)
        self._clock = run.ports.clock
        self._due: dict[Member, float] = {}
        self._look_at = 0.0
        self.booked = 0
        """Failures heard of so far, also of members that are not started again."""

    def answered(self, member: Member, call: Invoke, done: Done) -> Mapping[str, Any]:
        """What it failed at before is done now."""
        self._failures.answered(member)
        if self.run.members.role(member).samples:  # with it, who answered what it asked
            for server in self.run.members.servers:
                self._failures.answered(server)
        return NOTHING

    def failed(self, member: Member, death: ExitReport) -> None:
        """Have the member restarted, unless nobody needs it.

        Raises:
            MemberFailed: it failed too often in a row.
        """
        run = self.run
        self.booked += 1
        block = run.roster.block_of(member)
        step = death.step
        if step is None:
            learner = run.learners.get(member.role, run.first)
            step = learner.told if block is None else block.written
        now = self._clock.now()
        asked_by = {} if death.asked_by is None else {"asked_by": death.asked_by}
        run.ports.journal.died(now, str(member), step, death.why[-2000:], **asked_by)
        if not self._is_needed(member):
            return  # it was parked for good; it is launched again when there is work for it
        together = run.members.together(member)
        count = self._failures.count(together[0], death, step)
        run.roster.down.update(together)
        self._due |= dict.fromkeys(together, now + self.limits.delay(count))
        last = death.why.strip().splitlines()[-1]
        _log.warning("%s is restarted (%d in a row): %s", member, count, last)
        run.monitor.restarts += 1
        self._restart_due()

    def _is_needed(self, member: Member) -> bool:
        run = self.run
        if member in run.roster.gone:
            return False
        return run.roster.takes_part(member) or bool(run.invocations.of(member))

    def tick(self) -> None:
        """Look which members hang, and which are to be restarted."""
        for member, death in self._late():
            self.run.died(member, death)
        self._restart_due()

    def _restart_due(self) -> None:
        """Restart the members that are due, and send them their unanswered invocations."""
        run, now = self.run, self._clock.now()
        due = [member for member, due in self._due.items() if due <= now]
        for member in due:
            del self._due[member]
            run.roster.down.discard(member)
            if self._is_needed(member):  # else it was parked for good meanwhile
                run.ports.processes.start(member)
                run.roster.started(member)
        for member in due:
            for call in run.invocations.of(member):
                run.ports.processes.passers[member].pass_message(call)

    def _late(self) -> Iterator[tuple[Member, ExitReport]]:
        """Members that take too long to start or to answer, with their exit reports."""
        run, now = self.run, self._clock.now()
        start, answer = self.limits.start, self.limits.answer
        # The time of members begins only when they lack nothing any more.
        if now >= self._look_at:
            pause = answer / _LOOKS
            self._look_at = now + pause
            for member, call in run.invocations.overdue(now, pause):  # few of many: to ask costs
                # Until the next look it may go on waiting.
                if run.roster.lacks(member, call):
                    run.invocations.restamp(member, self._look_at)
        for member in tuple(run.roster.late(start)):
            if run.members.follows(member):
                continue  # replicas are ready together, and end together
            if run.roster.unplaced(member):
                run.roster.started(member)
            else:
                yield member, ExitReport(f"not ready within {start:g} s: {SLOW}")
        for member, call in tuple(run.invocations.overdue(now, answer)):
            if run.roster.lacks(member, call):
                run.invocations.restamp(member, now)
            elif run.roster.is_ready(member):
                what = f"{call.trigger} (firing {call.firing})"
                yield member, ExitReport(f"no answer to {what} within {answer:g} s: {SLOW}")
