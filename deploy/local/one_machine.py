"""One machine: head and worker side in one supervisor process, learner and actors as processes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from artos.buffer.run_memory import Node
from artos.clock import Clock
from artos.runtime.preloaded import Preloaded
from artos.usage import Usage
from head.run.supervisor import STOP_SECONDS, Supervisor
from triggers.mailboxes import Mailboxes
from workers.executor.build import build


class OneMachine(Supervisor):
    """The members of a run as processes of this machine, and the loop that serves them."""

    def __init__(
        self,
        node: Node,
        home: Path,
        clock: Clock,
        undisturbed: Callable[[], AbstractContextManager[None]] = nullcontext,
        preloaded: Preloaded | None = None,
    ) -> None:
        mail = Mailboxes(node.board)
        self._here = build(node, home, mail, clock, preloaded)
        super().__init__(node, mail, self._here, clock, undisturbed, preloaded)

    def usage(self) -> Usage:
        """What the actors cost so far."""
        return self._here.usage()

    def waits_for_slot(self, member: int) -> bool:
        """See ``Members.waits_for_slot``."""
        return self._here.held_back(member)

    def unplaced(self, member: int) -> str:
        """Everybody has a place: this machine."""
        return ""

    def _actor_changed(self, member: int) -> None:
        if member < self._here.template:
            self._coordinator.look(member)
        for message in self._here.reports(member):
            self._coordinator.receive(member, message)

    def _follow_children(self) -> None:
        super()._follow_children()
        for member, death in self._here.deaths():
            self._actor_changed(member)  # its last messages come first
            if member not in self._here.pids():
                self._coordinator.died(member, death)

    def _tick(self) -> None:
        super()._tick()
        self._here.tick()

    def stop(self) -> None:
        """Tell every member to stop, wait for them, kill those that do not; reap all."""
        self._here.tell_to_stop()
        self._stop_learner()
        self._here.stop(STOP_SECONDS)

    def kill(self) -> None:
        """End every member at once."""
        self._learner.stop(0.0)
        self._here.stop(0.0)
