"""What actors did, as the journal has it for an exact replay: each round, its weights, its rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from xxhash import xxh3_64

from artos.buffer.actor_block import ActorBlock
from artos.protocol.invocations import Done, Invoke
from artos.runtime.taping import share
from artos.specs.keys import VERSION_KEY
from artos.specs.members import Member
from artos.system.exit_report import ExitReport
from head.run.coordination.concern import NOTHING, Concern
from head.run.run import Run

_SMALL = 256
"""Bytes of a value of one environment that is looked at: rewards and actions, but no images."""


class Recording(Concern[Run]):
    """Adds to the lines of actors what they were asked for, and a checksum of what they wrote.

    ``asked`` holds the row up to which the actor sampled (0: none), whether it was to bind the
    newest weights, the environment steps made by then, and the share of the run, unless that is
    just the share of the steps. Learners record their own part (``artos.runs.tape``).
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._asked: dict[int, deque[Invoke]] = {}
        self._rows = {actor: block.written for actor, block in run.ports.blocks.items()}

    def invoked(self, member: Member, call: Invoke) -> None:
        """An actor was asked for something."""
        if self.run.members.role(member).samples:
            self._asked.setdefault(member.rank, deque()).append(call)

    def answered(self, member: Member, call: Invoke, done: Done) -> Mapping[str, Any]:
        """It has done that."""
        if not self.run.members.role(member).samples:
            return NOTHING
        self._asked[member.rank].popleft()
        return self._facts(member.rank, call)

    def failed(self, member: Member, death: ExitReport) -> None:
        """It has done what is not asked any more, though it did not come to say so."""
        if not self.run.members.role(member).samples:
            return
        asked, block = self._asked.get(member.rank, deque()), self.run.ports.blocks[member.rank]
        for _ in range(len(asked) - len(self.run.invocations.of(member))):
            call = asked.popleft()
            version = int(block.arrays[VERSION_KEY][block.index(call.stop - 1)])
            facts = {"version": version, **self._facts(member.rank, call)}
            self.run.ports.journal.write({"again": call.firing, "by": str(member), **facts})

    def _facts(self, actor: int, call: Invoke) -> dict[str, Any]:
        plan = self.run.plan
        asked: list[Any] = [call.stop, int(call.bind), call.steps]
        if call.progress != share(call.steps, plan.total_steps):
            asked.append(call.progress)
        if not call.stop or plan.short_rounds:
            return {"asked": asked}
        start, self._rows[actor] = self._rows[actor], call.stop
        block = self.run.ports.blocks[actor]
        if block.written < call.stop:
            return {"asked": asked}  # they are still on their way from another node
        return {"asked": asked, "rows": checksum(block, start, call.stop)}


def checksum(block: ActorBlock, start: int, stop: int) -> int:
    """Of the small values of rows ``start`` to ``stop`` of an actor, 32 bits."""
    found = xxh3_64()
    for key in block.spec.keys:
        if key.row_bytes(block.spec.envs) <= _SMALL * block.spec.envs:
            for values in block.views(key.name, start, stop):
                found.update(values.data)
    return found.intdigest() & 0xFFFFFFFF
