"""Where firings go: each becomes invocations of the learner or of actors, or of nobody."""

from __future__ import annotations

from collections.abc import Callable, Collection

from artos.buffer.board import LEARNER
from artos.protocol.invocations import Claim, Invoke
from head.run.coordination.ports import Ports
from head.run.coordination.pull_queue import PullQueue
from head.run.coordination.recovery import Recovery
from head.run.coordination.sampling import Sampling
from head.run.coordination.state import RunState
from triggers.base import Firing
from triggers.window import Window
from triggers.wiring import method_of


class Dispatcher:
    """Makes invocations of firings, books them and passes them on to the members.

    ``window`` paces sampling; ``clocks`` are the targets whose triggers will fire by the clock.
    """

    def __init__(
        self, ports: Ports, state: RunState, recovery: Recovery, window: Window,
        clocks: Callable[[], Collection[str]],
    ) -> None:  # fmt: skip
        self._ports, self._state, self._recovery, self._clocks = ports, state, recovery, clocks
        self.pulls = PullQueue(state.invocations, self._invoke)
        self.sampling = Sampling(ports, state, self.pulls, window)

    def invoke_learner(self, firing: Firing) -> None:
        """A learner trigger fired: hand over the rows it claimed."""
        state = self._state
        if firing.dropped:
            self._drop(firing)
            return
        if not firing.claims and state.invocations.includes(LEARNER, firing.trigger):
            self._in_vain(firing)  # a period that passed while the learner was busy
            return
        progress = min(1.0, state.consumed / state.plan.total_steps)
        method = method_of(firing.trigger)
        call = Invoke(firing.number, firing.trigger, method, firing.claims, progress=progress)
        self._invoke(LEARNER, call)
        state.claims.claim(firing.trigger, firing.claims)

    def invoke_actors(self, firing: Firing) -> None:
        """An actor trigger fired: grant rounds of sampling, or have weights pulled."""
        if not self.sampling.fire(firing):
            self._in_vain(firing)

    def acknowledge(self, consumer: str, claims: tuple[Claim, ...]) -> None:
        """A consumer is done with these rows: their room is free once all consumers are."""
        for claim in claims:
            done = self._state.claims.done(consumer, claim)
            self._ports.blocks[claim.actor].acknowledge(consumer, *done)

    def _drop(self, firing: Firing) -> None:
        state = self._state
        state.claims.claim(firing.trigger, firing.dropped)
        rows = sum(claim.stop - claim.start for claim in firing.dropped)
        state.monitor.rows_lost += rows * state.plan.envs
        self.acknowledge(firing.trigger, firing.dropped)

    def _in_vain(self, firing: Firing) -> None:
        if firing.trigger in self._clocks():
            self._ports.journal.take_back(firing.number)
            self._state.standstill.in_vain(firing.trigger)

    def _invoke(self, member: int, call: Invoke) -> None:
        if not self._recovery.waits(member):
            # First, so that the books cost the member no time.
            self._ports.members.passers[member].pass_message(call)
        self._state.invocations.add(member, call, self._ports.clock.now())

    def __repr__(self) -> str:
        return f"<Dispatcher {self.sampling!r}>"
