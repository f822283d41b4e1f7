"""The head side of a run: its coordinator, its learner, and the loop that serves them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from artos.buffer.board import LEARNER, actor_member
from artos.buffer.run_memory import Node
from artos.clock import Clock
from artos.errors import CannotScale
from artos.protocol import control
from artos.protocol.invocations import Invoke, Stop
from artos.runtime.control import ControlDesk
from artos.runtime.loop import Loop
from artos.runtime.preloaded import Preloaded
from artos.system.child import start
from artos.usage import Usage
from head.run.coordination.coordinator import Coordinator
from head.run.learner_host import LearnerHost
from triggers.mailboxes import Mailboxes
from triggers.passers import MessagePasser

STOP_SECONDS = 5.0
"""How long members may take to end by themselves."""


class Actors(Protocol):
    """The actors' half of ``Members``."""

    @property
    def passers(self) -> Mapping[int, MessagePasser[Invoke]]:
        """See ``Members.passers``."""

    def start(self, member: int) -> None:
        """See ``Members.start``."""

    def end(self, member: int) -> None:
        """See ``Members.end``."""

    @property
    def prepare(self) -> Callable[[int], None]:
        """See ``Members.prepare``."""

    @property
    def retire(self) -> Callable[[int], None]:
        """See ``Members.retire``."""


class Supervisor(Loop):
    """The members of a run and the loop that serves them; where the actors are is up to ``actors``.

    Implements ``Members``.
    """

    def __init__(
        self,
        node: Node,
        mail: Mailboxes,
        actors: Actors,
        clock: Clock,
        undisturbed: Callable[[], AbstractContextManager[None]] = nullcontext,
        preloaded: Preloaded | None = None,
    ) -> None:
        super().__init__(node.board, clock, undisturbed)
        self._mail, self._actors = mail, actors
        self._desk = ControlDesk(node.board, node.site.members)
        begin = preloaded.start if preloaded else start
        self._learner = LearnerHost(node.plan, node.site, node.plan_file, begin)
        to_learner: dict[int, MessagePasser[Invoke]] = {LEARNER: mail.passers[LEARNER]}
        self.passers = {**to_learner, **actors.passers}
        self.prepare, self.retire = actors.prepare, actors.retire

    # -- Members ------------------------------------------------------------------

    def end(self, member: int) -> None:
        """Kill what is left of the member."""
        if member == LEARNER:
            self._learner.end()
        else:
            self._actors.end(member)

    def start(self, member: int) -> None:
        """Start the member with an empty mailbox."""
        if member == LEARNER:
            self._mail.clear(LEARNER)
            self._learner.start()
        else:
            self._actors.start(member)

    # -- the loop ------------------------------------------------------------------------------

    def run(self, coordinator: Coordinator, after: Callable[[], None]) -> None:
        """Start everything and serve until the coordinator is finished; see ``Loop.serve``."""
        self._coordinator = coordinator
        with self._undisturbed():
            self._learner.start()  # first, as it takes longest
            self._begin(coordinator)
            coordinator.begin()
            for actor in coordinator.actors:
                self._actors.start(actor_member(actor))
        self.serve(lambda: coordinator.finished, after)

    def _begin(self, coordinator: Coordinator) -> None:  # a hook
        """What there is to do before any actor is started: by itself, nothing."""

    @abstractmethod
    def _actor_changed(self, member: int) -> None:
        """Something of an actor, or of a guest, changed."""

    def _changed(self, member: int) -> None:
        if member == self._desk.member:
            self._mail.malformed += self._desk.serve(self._scale)
        elif member == LEARNER:
            self._learner_changed()
        else:
            self._actor_changed(member)

    def _learner_changed(self) -> None:
        self._coordinator.look(LEARNER)
        for message in self._mail.take(LEARNER):
            self._coordinator.receive(LEARNER, message)

    def _follow_children(self) -> None:
        for member, death in self._learner.reap():
            self._learner_changed()  # its last words come first
            if not self._learner.pids():
                self._coordinator.died(member, death)

    def _tick(self) -> None:
        self._coordinator.tick()

    def _due(self) -> float | None:
        return self._coordinator.engine.due()

    def _scale(self, request: control.ScaleRun) -> control.RunScaled:
        most = self._coordinator.state.plan.actors
        try:
            self._coordinator.scale(request.actors)
        except CannotScale as error:
            return control.RunScaled(len(self._coordinator.actors), most, str(error))
        return control.RunScaled(request.actors, most)

    # -- the end -------------------------------------------------------------------------------

    @abstractmethod
    def usage(self) -> Usage:
        """What the actors cost so far."""

    def _stop_learner(self) -> None:
        self._mail.clear(LEARNER)
        self._mail.passers[LEARNER].pass_message(Stop())
        self._learner.stop(STOP_SECONDS)
