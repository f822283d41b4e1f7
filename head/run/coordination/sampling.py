"""Turns firings into what actors are asked for: rounds of sampling, and pulls of weights."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from artos.buffer.board import LEARNER, actor_member
from artos.protocol.invocations import Invoke
from head.run.coordination.ports import Ports
from head.run.coordination.pull_queue import PullQueue
from head.run.coordination.state import RunState
from triggers.base import Firing
from triggers.window import Window
from triggers.wiring import method_of, samples


class Sampling:
    """Grants rounds within the run's budget and its ``window``; none while ``draining``."""

    def __init__(self, ports: Ports, state: RunState, pulls: PullQueue, window: Window) -> None:
        self._model, self._state = ports.model, state
        self._rounds, self._versions = state.rounds, state.versions
        self._pulls, self.window, self.draining = pulls, window, False
        self._early: dict[str, Firing] = {}

    @property
    def budget_spent(self) -> bool:
        """Whether all steps of the budget are granted."""
        plan = self._state.plan
        return self._state.base_steps + self._rounds.granted * plan.envs >= plan.total_steps

    def fire(self, firing: Firing) -> bool:
        """An actor trigger fired.

        An actor that still has as many rounds to sample as were ever granted at once gets no more.
        Before there are weights nobody can act: the first firing of each trigger waits for them.

        Returns whether anybody is or will be asked for anything.
        """
        actors, version = self._state.active_actors.actors, self._state.announced
        sampling = samples(firing.trigger)
        if sampling and self._model.version < 0:
            return self._early.setdefault(firing.trigger, firing) is firing
        if not sampling and version < 0:
            return False  # there is nothing to pull, and the first round binds whatever there is
        if not sampling:
            version = self._model.version  # an object is announced before the weights beside it
        self._rounds.at_once(firing.rounds)
        chosen = actors if firing.actors is None else [a for a in firing.actors if a in actors]
        asked = 0
        for _ in range(firing.rounds):
            asked += (self._sample if sampling else self._sync)(firing, chosen, version)
        return asked > 0

    def begin(self) -> None:
        """The first weights are there: what was asked for before is done now."""
        early, self._early = self._early, {}
        for firing in early.values():
            self.fire(firing)

    def _sample(self, firing: Firing, actors: Iterable[int], version: int) -> int:
        if self.draining or self.budget_spent:
            return 0
        number, target, method = firing.number, firing.trigger, method_of(firing.trigger)
        newest, made_by = self._model.made_by()
        trained = newest + self._state.invocations.after(LEARNER, made_by, self._state.silent)
        asked = 0
        for actor in self.window.in_turn(actors, self._rounds.granted_to):
            if self.window.admits(actor) and (stop := self._rounds.grant(actor)) is not None:
                if bind := self._versions.due(actor, trained):
                    self._versions.asked(actor, version)
                self.window.granted(actor, self._versions.next(actor))
                call = Invoke(number, target, method, (), stop, bind)
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
