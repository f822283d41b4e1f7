"""What is done when members die or do not answer: noted, started anew, given their work again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

from artos.buffer.actor_block import ActorBlock
from artos.buffer.board import LEARNER
from artos.clock import Clock
from artos.plan import Plan
from artos.protocol.invocations import Invoke
from artos.system.exit_report import SLOW, Death
from head.run.coordination.active_actors import Crew
from head.run.coordination.failures import Failures, Limits
from head.run.coordination.ledger import Invocations
from head.run.coordination.members import Members
from triggers.journal import Journal

_log = logging.getLogger(__name__)


class Recovery:
    """Deaths and deadlines of a workload's members.

    A member that is started anew is logged. ``held_back`` knows whose invocations wait for
    something that is not its doing, e.g. a free slot; ``homeless`` who has no place yet.
    ``in_place``: actors write to these ``blocks`` themselves.
    """

    def __init__(
        self,
        plan: Plan,
        blocks: Mapping[int, ActorBlock],
        members: Members,
        crew: Crew,
        invocations: Invocations,
        limits: Limits,
        clock: Clock,
        journal: Journal,
        *,
        held_back: Callable[[int], bool],
        homeless: Callable[[int], str],
        in_place: bool,
    ) -> None:
        self._plan, self._blocks = plan, blocks
        self._members, self._crew, self._invocations = members, crew, invocations
        self._limits, self._clock, self._journal = limits, clock, journal
        self._held_back, self._homeless = held_back, homeless
        self._failures = Failures(limits)
        self._in_place = in_place
        self._due: dict[int, float] = {}

    def wait_of(self, member: int, version: int) -> str:
        """What the member waits for while ``version`` is the newest, in words."""
        if away := self._homeless(member):
            return away
        if not self._crew.is_ready(member):
            return "starting"
        calls = self._invocations.of(member)
        if calls and self._held_back(member):
            return "a slot or its process"
        if calls and self._waits_for_room(member, calls[0]):
            return "room in its block"
        if calls:
            return f"running {calls[0].method} (firing {calls[0].firing})"
        return "rows" if member == LEARNER else f"version {version + 1}"

    def answered(self, member: int) -> None:
        """The member carried out an invocation."""
        self._failures.answered(member)

    def died(self, member: int, death: Death, version: int) -> None:
        """A member died while ``version`` was the newest.

        Raises:
            ActorFailed, LearnerFailed: it failed too often in a row.
        """
        name = name_of(member)
        step = death.step
        if step is None:
            step = version if member == LEARNER else self._blocks[member - 1].written
        self._journal.write({"died": name, "step": step, "why": death.why[-2000:]})
        self._crew.lost(member)
        if not self.needed(member):
            return  # it was put away; another process takes its place when there is work
        count = self._failures.count(member, death, step)
        self._due[member] = self._clock.now() + self._limits.delay(count)
        last = death.why.strip().splitlines()[-1]
        _log.warning("%s is restarted (%d in a row): %s", name, count, last)

    def needed(self, member: int) -> bool:
        """Whether a member that died must be started anew."""
        return self._crew.needs(member) or bool(self._invocations.of(member))

    def waits(self, member: int) -> bool:
        """Whether the member is down until its restart is due; it gets what it is sent then."""
        return member in self._due

    def restart_due(self) -> None:
        """Start those anew whose time has come, and send them what they have not answered."""
        now = self._clock.now()
        for member in [member for member, due in self._due.items() if due <= now]:
            del self._due[member]
            self._restart(member)

    def _restart(self, member: int) -> None:
        self._members.start(member)
        self._crew.started(member)
        for call in self._invocations.of(member):
            self._members.passers[member].pass_message(call)

    def late(self) -> Iterator[tuple[int, Death]]:
        """Members that take too long to start or to answer, and what is to be said of them."""
        start, answer, now = self._limits.start, self._limits.answer, self._clock.now()
        for member in tuple(self._crew.late(start)):
            if self._homeless(member):
                self._crew.started(member)
            else:
                yield member, Death(f"not ready within {start:g} s: {SLOW}")
        for member, call in tuple(self._invocations.overdue(now, answer)):
            if self._held_back(member) or self._waits_for_room(member, call):
                self._invocations.restamp(member, now)
            elif self._crew.is_ready(member):
                what = f"{call.trigger} (firing {call.firing})"
                yield member, Death(f"no answer to {what} within {answer:g} s: {SLOW}")

    def nobody_works(self, *, but_pulls: bool = False) -> bool:
        """Whether all who have something to do wait for room, or only pull weights (if asked).

        Who waits for room on another node may have rows on their way that make it.
        """
        return all(
            (self._in_place and self._waits_for_room(member, call))
            or (but_pulls and member != LEARNER and not call.stop)
            for member, call in self._invocations
        )

    def _waits_for_room(self, member: int, call: Invoke) -> bool:
        # That is the learner's doing: it holds rows that this round would overwrite.
        if member == LEARNER or self._plan.on_full != "wait":
            return False
        block = self._blocks[member - 1]
        return block.free() < call.stop - block.written


def name_of(member: int) -> str:
    """A member as people are told of it."""
    return "learner" if member == LEARNER else f"actor {member - 1}"
