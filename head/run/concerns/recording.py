"""What actors did, as the journal has it for an exact replay: each round, its weights, its rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from xxhash import xxh3_64, xxh3_64_intdigest

from artos.buffer.actor_block import ActorBlock
from artos.protocol.invocations import Done, Invoke
from artos.runtime.taping import share
from artos.specs.keys import OTHER_VERSIONS, VERSION_KEY, DataKey
from artos.specs.members import Member
from artos.system.exit_report import ExitReport
from head.run.coordination.concern import NOTHING, Concern
from head.run.run import Run
from triggers.events import Event, Rewound

WIDE = "float32"
_SMALL = 256
"""Bytes of a value of one environment up to which it counts as small; images are large."""
_MOST_TIME, _MOST_SUMS = 0.01, 5_000.0
"""Share of the run's time that sums of large values may take; sums a second, 0.8 MB a minute."""


class Recording(Concern[Run]):
    """Adds to the lines of actors what they were asked for, and a checksum of what they wrote.

    ``asked`` holds the environment steps made by then; 0 if the actor was not to bind the newest
    weights, else 1; and the share of the run, if that is not just the share of the steps. ``rows``
    is a checksum of what it wrote, of 16 bits: with another one its learner makes other versions,
    whose checksums are longer. ``large`` has the sums of its rows' large values, if there is time
    and room for them. ``beside`` has the versions of other learners of which it reads something.
    ``ended`` is the row at which a round ended that may end early; ``kept`` says up to which row
    there is anything of one whose process is gone. Learners record their own part
    (``artos.runs.tape``).
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._asked: dict[int, deque[Invoke]] = {}
        self._ends = {actor: block.written for actor, block in run.ports.blocks.items()}
        """The row up to which the journal says how each actor came to it."""
        self._began, self._spent, self._summed = run.ports.clock.now(), 0.0, 0
        """Since when, for how many seconds, and of how many rows large values were summed."""

    def begin(self) -> None:
        """Record as what actors get their weights, if those on other nodes get them rounded."""
        if (dtype := self.run.plan.elastic.wire_dtype) != WIDE:
            here = self.run.ports.row_source.in_place
            self.run.ports.journal.write({"sent_as": WIDE if here else dtype})

    def invoked(self, member: Member, call: Invoke) -> None:
        """An actor was asked for something."""
        if self.run.members.role(member).samples:
            self._asked.setdefault(member.rank, deque()).append(call)

    def answered(self, member: Member, call: Invoke, done: Done) -> Mapping[str, Any]:
        """It has done that."""
        if not self.run.members.role(member).samples:
            return NOTHING
        self._asked[member.rank].popleft()
        beside = {"beside": done.beside} if done.beside else NOTHING
        if not (call.stop and self.run.plan.short_rounds):
            return {**self._facts(member.rank, call, call.stop), **beside}
        end = min(call.stop, done.written)
        return {**self._facts(member.rank, call, end), "ended": end, **beside}

    def happened(self, event: Event) -> None:
        """An actor's node is gone, and with it what it would have said of its last rounds."""
        if isinstance(event, Rewound) and self.run.plan.short_rounds:
            rounds = [call for call in self._asked.get(event.actor, ()) if call.stop]
            if len(rounds) > 1:  # nobody knows where the first of them ended
                self._ends[event.actor] = max(self._ends[event.actor], event.rows)

    def failed(self, member: Member, death: ExitReport) -> None:
        """It has done what is not asked any more, though it did not come to say so."""
        if not self.run.members.role(member).samples:
            return
        asked = self._asked.get(member.rank, deque())
        for _ in range(len(asked) - len(self.run.invocations.of(member))):
            call = asked.popleft()
            if self._ends[member.rank] < call.stop:
                self._again(member, call, call.stop)
        # The rows that had arrived of a round on a node that is gone; or it had ended early.
        kept = self.run.rounds.written_by(member.rank)
        if asked and self._ends[member.rank] < kept < asked[0].stop:
            self._again(member, asked[0], kept, kept=kept)

    def _again(self, member: Member, call: Invoke, stop: int, **facts: Any) -> None:
        """Record what nobody answers for, by the rows that there are of it up to ``stop``."""
        block = self.run.ports.blocks[member.rank]

        def made_by(key: str) -> int:
            return int(block.arrays[key][block.index(stop - 1)])

        if beside := {n: made_by(OTHER_VERSIONS + n) for n in self.run.plan.read_learners}:
            facts["beside"] = beside
        facts |= {"version": made_by(VERSION_KEY), **self._facts(member.rank, call, stop)}
        self.run.ports.journal.write(
            {"again": call.firing, "by": str(member), "stop": call.stop, **facts}
        )

    def _facts(self, actor: int, call: Invoke, stop: int) -> dict[str, Any]:
        plan = self.run.plan
        asked: list[Any] = [call.steps]
        if call.progress != share(call.steps, plan.total_steps):
            asked += [int(call.bind), call.progress]
        elif not call.bind:
            asked.append(0)
        start, self._ends[actor] = self._ends[actor], max(self._ends[actor], stop)
        block = self.run.ports.blocks[actor]
        if stop <= start:
            return {"asked": asked}  # it only bound weights, or its rows were there already
        if block.written < stop:
            return {"asked": asked}  # they are still on their way from another node
        sums = {"rows": checksum(block, start, stop), **self._of_large(block, start, stop)}
        if any(block.oldest(key.name) > start for key in block.spec.keys):
            return {"asked": asked}  # used and released already, so later ones took their place
        return {"asked": asked, **sums}

    def _of_large(self, block: ActorBlock, start: int, stop: int) -> Mapping[str, Any]:
        began = self.run.ports.clock.now()
        passed = began - self._began
        if self._spent > _MOST_TIME * passed or self._summed > _MOST_SUMS * passed:
            return NOTHING
        if not (sums := large_sums(block, start, stop)):
            return NOTHING
        self._spent += self.run.ports.clock.now() - began
        self._summed += stop - start
        return {"large": sums}


def checksum(block: ActorBlock, start: int, stop: int) -> int:
    """Of the small values of rows ``start`` to ``stop`` of an actor, 16 bits."""
    found = xxh3_64()
    for key in block.spec.keys:
        if not _is_large(key, block):
            for values in block.views(key.name, start, stop):
                found.update(values.data)
    return found.intdigest() & 0xFFFF


def large_sums(block: ActorBlock, start: int, stop: int) -> bytes:
    """Of the large values of each row from ``start`` to ``stop``, 16 bits; b"" if it has none."""
    sums: list[int] = []
    for key in (key for key in block.spec.keys if _is_large(key, block)):
        rows = (row for values in block.views(key.name, start, stop) for row in values)
        before = sums or [0] * (stop - start)
        sums = [xxh3_64_intdigest(row.data, seed) for row, seed in zip(rows, before, strict=True)]
    return np.array(sums, np.uint64).astype("<u2").tobytes()


def _is_large(key: DataKey, block: ActorBlock) -> bool:
    return key.row_bytes(block.spec.envs) > _SMALL * block.spec.envs
