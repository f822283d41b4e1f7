"""Members that die or do not answer are journalled, restarted and sent their work again."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from artos.buffer.mailbox import LEARNER, actor_of
from artos.faults import Seldom
from artos.protocol.invocations import Done, Invoke, Waits
from artos.system.exit_report import SLOW, ExitReport
from head.run.coordination.failures import Failures
from head.run.coordination.ports import Ports
from head.run.coordination.state import RunState

_log = logging.getLogger(__name__)
_LOOKS = 40
"""How many times within the limit for an answer it is looked who waits for others.

Of a wait that ends within two looks of its invocation that much may count.
"""


class Recovery:
    """Handles deaths and deadlines of a workload's members; logs every restart."""

    def __init__(self, ports: Ports, state: RunState) -> None:
        self._ports, self._state = ports, state
        self._members, self._clock = ports.members, ports.clock
        self._active_actors, self._invocations, self._limits = (
            state.active_actors,
            state.invocations,
            state.limits,
        )
        self._failures = Failures(state.limits)
        self._due: dict[int, float] = {}
        self._look_at = 0.0
        self._wants: dict[int, str] = {}
        self._seldom = Seldom(_log)

    def wait_of(self, member: int) -> str:
        """What the member waits for, in words."""
        if away := self._members.unplaced(member):
            return away
        if not self._active_actors.is_ready(member):
            return "starting"
        calls = self._invocations.of(member)
        if calls:
            running = f"running {calls[0].method} (firing {calls[0].firing})"
            return self._lacks(member, calls[0]) or running
        beside = {LEARNER: "rows", self._state.evaluations.member: "a version to evaluate"}
        return beside.get(member, f"version {self._state.announced + 1}")

    def told(self, member: int, waits: Waits) -> None:
        """The member waits for something that it cannot help; or does so no longer.

        Its time to answer begins when the wait is over.
        """
        self._wants.pop(member, None)
        if waits.what:
            self._wants[member] = waits.what
        self._invocations.restamp(member, self._clock.now())

    def lost_lease(self, call: Invoke, done: Done) -> None:
        """The learner's device was taken from it while it updated, and others were given it."""
        self._state.monitor.leases_lost += 1
        self._seldom.warning(
            "%s (firing %d) took %.1f s, which was too long for its lease: meanwhile %s was given "
            "to another one that waited", call.trigger, call.firing, done.seconds, done.lost_lease,
        )  # fmt: skip

    def answered(self, member: int) -> None:
        """The member carried out an invocation."""
        self._failures.answered(member)

    def died(self, member: int, death: ExitReport) -> None:
        """A member died.

        Raises:
            ActorFailed, LearnerFailed: it failed too often in a row.
        """
        name = self._state.name_of(member)
        step = self._step_of(member) if death.step is None else death.step
        self._ports.journal.write({"died": name, "step": step, "why": death.why[-2000:]})
        self._active_actors.lost(member)
        self._wants.pop(member, None)
        if member == self._state.evaluations.member and self._failures.hopeless(member, death):
            self._invocations.drop(member)
            self._state.evaluations.give_up(death.why)
        if not self.needed(member):
            return  # it was parked for good; it is launched again when there is work for it
        count = self._failures.count(member, death, step)
        self._due[member] = self._clock.now() + self._limits.delay(count)
        last = death.why.strip().splitlines()[-1]
        _log.warning("%s is restarted (%d in a row): %s", name, count, last)

    def _step_of(self, member: int) -> int:
        block = self._ports.blocks.get(actor_of(member))
        return self._state.announced if block is None else block.written

    def needed(self, member: int) -> bool:
        """Whether a member that died must be restarted."""
        evaluations = self._state.evaluations
        if member == evaluations.member:
            return not evaluations.failed
        return self._active_actors.needs(member) or bool(self._invocations.of(member))

    def waits(self, member: int) -> bool:
        """Whether the member is down until its restart; its invocations are sent then."""
        return member in self._due

    def restart_due(self) -> None:
        """Restart the members that are due, and send them their unanswered invocations."""
        now = self._clock.now()
        for member in [member for member, due in self._due.items() if due <= now]:
            del self._due[member]
            self._restart(member)

    def _restart(self, member: int) -> None:
        self._members.start(member)
        self._active_actors.started(member)
        for call in self._invocations.of(member):
            self._members.passers[member].pass_message(call)

    def late(self) -> Iterator[tuple[int, ExitReport]]:
        """Members that take too long to start or to answer, with their exit reports."""
        start, answer, now = self._limits.start, self._limits.answer, self._clock.now()
        self._leave_out_waits(now)
        for member in tuple(self._active_actors.late(start)):
            if self._members.unplaced(member):
                self._active_actors.started(member)
            else:
                yield member, ExitReport(f"not ready within {start:g} s: {SLOW}")
        for member, call in tuple(self._invocations.overdue(now, answer)):
            if self._lacks(member, call):
                self._invocations.restamp(member, now)
            elif self._active_actors.is_ready(member):
                what = f"{call.trigger} (firing {call.firing})"
                yield member, ExitReport(f"no answer to {what} within {answer:g} s: {SLOW}")

    def _leave_out_waits(self, now: float) -> None:
        """Have the time of members begin only when nothing is lacking to them any more."""
        if now < self._look_at:
            return
        pause = self._limits.answer / _LOOKS
        self._look_at = now + pause
        for member, call in self._invocations.overdue(now, pause):  # few of many: to ask costs
            # Until the next look it may go on waiting.
            if self._lacks(member, call):
                self._invocations.restamp(member, self._look_at)

    def _lacks(self, member: int, call: Invoke) -> str:
        """What others have that it needs to answer, in words; "" if it lacks nothing."""
        if self._members.waits_for_slot(member):
            return "a slot or its process"
        room = "room in its block" if self._waits_for_room(member, call) else ""
        return self._wants.get(member, room)

    def nobody_works(
        self, *, but_pulls: bool = False, but_unplaced: bool = False, but_waits: bool = False
    ) -> bool:
        """Whether every member with an invocation waits for room.

        ``but_pulls``: or only pulls. ``but_unplaced``: or has no place to run. ``but_waits``: or
        waits for something else: what it ``told``; or, an actor, for a slot or to be set up, if
        no rows are left that an update with its round would learn from.

        The evaluator does not count: neither learner nor actors wait for it.
        On other nodes an actor that waits for room still works: rows under way may make room.
        """
        return all(
            (self._ports.row_source.in_place and self._waits_for_room(member, call))
            or member == self._state.evaluations.member
            or (but_unplaced and self._members.unplaced(member))
            or (but_pulls and member != LEARNER and not call.stop)
            or (but_waits and self._waits(member))
            for member, call in self._invocations
        )

    def _waits(self, member: int) -> bool:
        if member == LEARNER:  # what it began has used rows, and is made again
            return member in self._wants
        progress = self._state.progress
        if progress.steps > progress.consumed:  # rows of others may wait for this one's
            return False
        return not self._active_actors.is_ready(member) or self._members.waits_for_slot(member)

    def _waits_for_room(self, member: int, call: Invoke) -> bool:
        # An actor waits if the learner still holds rows that its round would overwrite.
        block = self._ports.blocks.get(actor_of(member))
        if block is None or self._state.plan.on_full != "wait":
            return False
        return block.free() < call.stop - block.written
