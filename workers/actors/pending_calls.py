"""What one actor has to do: its invocations, and what its process has cost them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import msgspec

from artos.protocol.invocations import Done, Invoke, Rest
from workers.actors.rests import Rests
from workers.actors.tier_policy import IdleForecast

_NOTICED = 0.001
"""Seconds; an actor that waits for less has had its slot at once."""


@dataclass(kw_only=True)
class PendingCalls:
    """The invocations of one actor, which wait for a slot or are in its mailbox, and branches."""

    waiting: deque[Invoke] = field(default_factory=deque)
    """Held back until the actor has a slot."""
    retired: bool = False
    """Whether the workload has shrunk and does not use this actor."""
    unanswered: int = 0
    """How many are in its mailbox."""
    asked: float = 0.0
    """Time at which the oldest waiting one came."""
    stale: bool = False
    """Whether the actor must bind the newest weights first, as they changed while it was away."""
    # Not decided by ``Binding`` in the run process, which does not know that an actor waited as an
    # image, for which its pin was released: what it had bound may be overwritten by now.
    slot_s: float = 0.0
    """Seconds that its present invocation waited for a slot, for its ``Done``."""
    waited_s: float = 0.0
    """Seconds that its present invocation waited for a process, for its ``Done``."""
    restored_s: float = 0.0
    """Seconds that the restore before its present invocation took, for its ``Done``."""
    rested: tuple[Rest, ...] = ()
    """How it rested before its present invocation, for its ``Done``."""
    rests: Rests = field(default_factory=Rests)
    idle_since: float = 0.0
    """Time from which the actor is idle."""
    forecast: IdleForecast = field(default_factory=IdleForecast)
    branches: int = 0
    """How many orders to continue its episode are under way: meanwhile it waits in memory."""

    @property
    def busy(self) -> bool:
        """Whether the actor has something to do."""
        return bool(self.waiting or self.unanswered)

    def retire(self) -> None:
        """Record that the workload does not use this actor any more."""
        self.retired = True

    def add_call(self, call: Invoke, now: float) -> None:
        """Queue an invocation behind those the actor already has."""
        if not self.waiting:
            self.asked = now
        self.waiting.append(call)

    def next_call(self) -> Invoke:
        """Take the next invocation off the queue, to be put into the actor's mailbox."""
        call = self.waiting.popleft()
        if self.stale:
            call, self.stale = msgspec.structs.replace(call, bind=True), False
        self.unanswered += 1
        self.forecast.expect(call.idle)
        return call

    def answered(self) -> None:
        """Count the oldest invocation in the mailbox as carried out."""
        self.unanswered -= 1

    def begin_branch(self) -> None:
        """Record that one more order to continue its episode is under way."""
        self.branches += 1

    def end_branch(self) -> None:
        """Record that one of these orders is over."""
        self.branches -= 1

    def with_costs(self, done: Done) -> Done:
        """The actor's answer, with what its process cost the invocation; each cost counts once."""
        if self.slot_s or self.waited_s or self.restored_s or self.rested:
            done = msgspec.structs.replace(
                done, slot=self.slot_s, waited=self.waited_s, restored=self.restored_s,
                rested=self.rested,
            )  # fmt: skip
            self.slot_s = self.waited_s = self.restored_s = 0.0
            self.rested = ()
        return done

    def has_slot(self, now: float) -> None:
        """Count what the oldest waiting invocation has waited, after all before it were done."""
        seconds = now - max(self.asked, self.idle_since)
        self.slot_s = seconds if seconds >= _NOTICED else 0.0

    def rest(self, now: float) -> None:
        """Count the actor as idle from now on."""
        self.idle_since = now

    def release_weights(self) -> None:
        """Have the actor bind the newest weights before anything else: it holds none."""
        self.stale = True
