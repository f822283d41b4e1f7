"""Turns firings into invocations: of the learner, or of actors (rounds of sampling and pulls)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import ClassVar

import msgspec

from artos.buffer.mailbox import LEARNER, actor_member
from artos.protocol.invocations import Claim, Invoke
from head.run.coordination.ledger import Invocations
from head.run.coordination.ports import Ports
from head.run.coordination.recovery import Recovery
from head.run.coordination.state import RunState
from triggers.base import Event, Firing, Ungranted
from triggers.window import Window
from triggers.wiring import method_of, samples

_log = logging.getLogger(__name__)
_MOST_WAITING = 2
"""Invocations of one target that claim nothing: one is made, the next one waits."""


class PullQueue:
    """Keeps pulls from piling up in front of an actor that is in a round, or has not started yet.

    An actor binds the newest weights there are, so while one pull is unanswered a second is kept
    back. If the first pull was made too early, the second follows: when the first is answered, or
    before the next round, whichever comes first.
    """

    kept: ClassVar[tuple[str, ...]] = ("_kept",)

    def __init__(self, invocations: Invocations, invoke: Callable[[int, Invoke], None]) -> None:
        self._invocations, self._invoke = invocations, invoke
        self._kept: dict[int, Invoke] = {}

    def ask(self, member: int, pull: Invoke) -> None:
        """The actor is to bind the newest weights before its next round."""
        last = self._invocations.last(member)
        if last is None or last.stop:
            self._invoke(member, pull)
        else:
            self._kept[member] = pull

    def before(self, member: int, sampling: Invoke) -> None:
        """Grant the actor a round, after the pull that was kept back, if any."""
        if (pull := self._kept.pop(member, None)) is not None:
            self._invoke(member, pull)
        self._invoke(member, sampling)

    def answered(self, member: int, behind: int) -> None:
        """The actor answered, with weights that are ``behind`` versions old."""
        if member in self._kept and self._invocations.last(member) is None:
            pull = self._kept.pop(member)
            if behind > 0:
                self._invoke(member, pull)


class Sampling:
    """Grants rounds within the run's budget and its ``window``; none while ``draining``."""

    kept: ClassVar[tuple[str, ...]] = ("window", "_pulls", "_early", "_begun", "_withheld")

    def __init__(
        self,
        ports: Ports,
        state: RunState,
        pulls: PullQueue,
        window: Window,
        feed: Callable[[Event], object],
    ) -> None:
        self._model, self._state, self._feed = ports.model, state, feed
        self._rounds, self._versions = state.rounds, state.versions
        self._pulls, self.window, self.draining = pulls, window, False
        self._early: dict[tuple[str, tuple[int, ...] | None], Firing] = {}
        self._withheld: list[Firing] = []
        self._begun = False

    @property
    def goes_on(self) -> bool:
        """Whether more rounds will be granted."""
        return not (self.draining or self._state.budget.spent)

    def fire(self, firing: Firing) -> bool:
        """An actor trigger fired.

        An actor that still has as many rounds to sample as were ever granted at once gets no more.
        Before the first version is announced no actor can sample, and actors may still be started
        anew: what fires by then waits for it.

        Returns whether any actor is or will be invoked.
        """
        actors, version = self._state.active_actors.actors, self._state.announced
        sampling = samples(firing.trigger)
        if sampling and not self._begun:
            return self._is_early(firing)
        if not sampling and version < 0:
            return False  # there is nothing to pull, and the first round binds the newest weights
        if not sampling:
            version = self._model.version  # an object is announced before the weights of its update
        self._rounds.at_once(firing.rounds)
        chosen = actors if firing.actors is None else [a for a in firing.actors if a in actors]
        asked = 0
        for _ in range(firing.rounds):
            asked += (self._sample if sampling else self._sync)(firing, chosen, version)
            for gone in {*(firing.actors or ())}.difference(chosen) if sampling else ():
                self._feed(Ungranted(firing.trigger, gone))
        return asked > 0

    def _is_early(self, firing: Firing) -> bool:
        """Keep a firing for ``begin``; returns whether it is for other actors than those before."""
        target = firing.trigger, firing.actors  # each of these has rounds of its own
        early = self._early.get(target)
        self._early[target] = early.plus(firing) if early else firing
        return early is None

    def begin(self) -> None:
        """The first version is announced: carry out the firings that waited for it."""
        self._begun = True
        early, self._early = self._early, {}
        for firing in early.values():
            self.fire(firing)

    def again(self) -> None:
        """Grant what the budget of an earlier part of the run did not allow."""
        withheld, self._withheld = self._withheld, []
        for firing in withheld:
            self.fire(firing)

    def _sample(self, firing: Firing, actors: Iterable[int], version: int) -> int:
        if not self.goes_on:
            self._withheld.append(msgspec.structs.replace(firing, rounds=1))
            return 0
        number, target, method = firing.number, firing.trigger, method_of(firing.trigger)
        newest, made_by = self._model.made_by()
        trained = newest + self._state.invocations.after(
            LEARNER, made_by, self._state.non_publishing
        )
        asked, progress, steps = 0, self._state.budget.used, self._state.progress.consumed
        for actor in self.window.in_turn(actors, self._rounds.granted_to):
            stop = self._rounds.grant(actor) if self.window.admits(actor) else None
            if stop is None and firing.actors is not None:
                self._feed(Ungranted(firing.trigger, actor))
            elif stop is not None:
                if bind := self._versions.due(actor, trained):
                    self._versions.asked(actor, version)
                self.window.granted(actor, self._versions.next(actor))
                idle = self._state.prewarming.idle
                call = Invoke(number, target, method, (), stop, bind, progress, steps, idle)
                self._pulls.before(actor_member(actor), call)
                asked += 1
        return asked

    def _sync(self, firing: Firing, actors: Collection[int], version: int) -> int:
        call = Invoke(firing.number, firing.trigger, method_of(firing.trigger), bind=True)
        for actor in actors:
            self._versions.asked(actor, version)
            self._pulls.ask(actor_member(actor), call)
        return len(actors)

    def __repr__(self) -> str:
        return f"<Sampling granted={self._rounds.granted} draining={self.draining}>"


class Dispatcher:
    """Makes invocations of firings, books them and passes them on to the members.

    ``window`` paces sampling; ``clocks`` returns the targets whose triggers fire by the clock, and
    ``feed`` tells triggers what became of what they asked for.
    """

    kept: ClassVar[tuple[str, ...]] = ("sampling", "_withheld")

    def __init__(
        self,
        ports: Ports,
        state: RunState,
        recovery: Recovery,
        window: Window,
        clocks: Callable[[], Collection[str]],
        feed: Callable[[Event], object],
    ) -> None:
        self._ports, self._state, self._recovery, self._clocks = ports, state, recovery, clocks
        self.pulls = PullQueue(state.invocations, self._invoke)
        self.sampling = Sampling(ports, state, self.pulls, window, feed)
        self._withheld: list[Firing] = []

    def again(self) -> None:
        """Go on with what the budget of an earlier part of the run did not allow."""
        withheld, self._withheld = self._withheld, []
        for firing in withheld:
            self.invoke_learner(firing)
        self.sampling.again()

    def invoke_learner(self, firing: Firing) -> None:
        """A learner trigger fired: hand over the rows it claimed."""
        state = self._state
        if firing.dropped:
            self._drop(firing)
            return
        if not firing.claims and self._is_busy(firing.trigger):
            self._skip(firing)
            return
        if not state.budget.admits(firing.trigger):
            self._withheld.append(firing)
            self._ports.journal.take_back(firing.number)
            return
        number, target, method = firing.number, firing.trigger, method_of(firing.trigger)
        used, steps = state.budget.used, state.progress.consumed
        call = Invoke(number, target, method, firing.claims, progress=used, steps=steps)
        self._invoke(LEARNER, call)
        state.claims.claim(firing.trigger, firing.claims)
        state.prewarming.called()

    def _is_busy(self, target: str) -> bool:
        """Whether a firing that claims nothing (so no rows are lost without it) is too early.

        A clock's waits for the last one's end; of others one more may wait, so that the learner
        goes on at once. A trigger may fire with every event, and whatever is sent to the learner is
        waited for when the run is to stop.
        """
        waiting = self._state.invocations.count(LEARNER, target)
        return waiting >= (1 if target in self._clocks() else _MOST_WAITING)

    def _skip(self, firing: Firing) -> None:
        """The learner is busy with what this trigger fired before."""
        self._ports.journal.take_back(firing.number)
        if firing.trigger in self._clocks():
            self._state.standstill.in_vain(firing.trigger)
        elif self._state.monitor.skipped(firing.trigger) == 1:
            _log.warning(
                "%s fires faster than the learner works: while %d of its invocations are under "
                "way, others are skipped and counted (skipped in summary.json)",
                firing.trigger, _MOST_WAITING,
            )  # fmt: skip

    def invoke_actors(self, firing: Firing) -> None:
        """An actor trigger fired: grant rounds of sampling, or have weights pulled."""
        if not self.sampling.fire(firing):
            self._in_vain(firing)

    def prewarm_actors(self, firing: Firing) -> None:
        """The next version is near: have actors that wait as images restored."""
        invocations, needed = self._state.invocations, self.sampling.goes_on
        members = map(actor_member, self._state.active_actors.actors)
        idle = [m for m in members if needed and invocations.last(m) is None]
        for member in idle:
            if not self._recovery.waits(member):
                self._ports.members.prepare(member)
        if not idle:
            self._ports.journal.take_back(firing.number)

    def invoke_evaluator(self, firing: Firing) -> None:
        """A version is due to be evaluated: it is played once the evaluator is free."""
        number, target, state = firing.number, firing.trigger, self._state
        used, steps = state.budget.used, state.progress.consumed
        call = Invoke(number, target, method_of(target), progress=used, steps=steps)
        updates = state.updates_through(self._ports.model.made_by()[1])
        if state.evaluations.ask(call, state.progress.steps, updates):
            self.evaluate()
        else:
            self._ports.journal.take_back(number)

    def evaluate(self) -> None:
        """Have the version that waits evaluated, if the evaluator is free."""
        evaluations = self._state.evaluations
        if evaluations.member is not None and (call := evaluations.begin()) is not None:
            self._invoke(evaluations.member, call)

    def acknowledge(self, consumer: str, claims: tuple[Claim, ...]) -> None:
        """A consumer is done with these rows; their room is free once all consumers are."""
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
            # Sent before it is booked, so that booking costs the member no time.
            self._ports.members.passers[member].pass_message(call)
        self._state.invocations.add(member, call, self._ports.clock.now())

    def __repr__(self) -> str:
        return f"<Dispatcher {self.sampling!r}>"
