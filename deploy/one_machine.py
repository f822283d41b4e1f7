"""One machine: head and worker side in one supervisor process, learner and actors as processes."""

from __future__ import annotations

from collections.abc import Callable

from artos.buffer.board import LEARNER
from artos.clock import Clock
from artos.errors import BadMessage
from artos.messages import Stop, ToMember, decode_from_member, encode
from deploy.node import Node
from head.coordinator import Coordinator
from head.learner_host import LearnerHost
from workers.process_manager import ProcessManager

_TICK = 0.25
_STOP_SECONDS = 5.0


class OneMachine:
    """The members of a run as processes of this machine, and the loop that serves them.

    Implements ``head.coordinator.Members``. Sleeps on the node's doorbell: a commit, a report, a
    death of a child and a signal all wake it.
    """

    def __init__(self, node: Node, clock: Clock) -> None:
        self._node, self._clock = node, clock
        self._learner = LearnerHost(node.plan, node.site, node.plan_file)
        self._actors = ProcessManager(node.plan, node.site, node.plan_file)
        members = range(node.site.members)
        self._down = [node.board.down(member) for member in members]
        self._up = [node.board.up(member) for member in members]
        self.bad_messages = 0

    # -- head.coordinator.Members --------------------------------------------------------------

    def send(self, member: int, message: ToMember) -> None:
        """Put a message into the member's mailbox."""
        self._down[member].put(encode(message))

    def end(self, member: int) -> None:
        """Kill what is left of the member."""
        if member == LEARNER:
            self._learner.end()
        else:
            self._actors.end(member)

    def start(self, member: int) -> None:
        """Start the member with an empty mailbox."""
        self._down[member].clear()
        if member == LEARNER:
            self._learner.start()
        else:
            self._actors.start(member)

    # -- the loop ------------------------------------------------------------------------------

    def pids(self) -> dict[int, int]:
        """Process id by member number."""
        return self._learner.pids() | self._actors.pids()

    def run(self, coordinator: Coordinator, after: Callable[[], None]) -> None:
        """Start everything and serve until the coordinator is finished.

        ``after`` is called whenever something happened and at least four times a second.
        """
        coordinator.begin()
        self._learner.start()
        self._actors.start_all()
        next_tick = self._clock.now()
        while not coordinator.finished:
            self._node.board.bell.wait(self._patience(coordinator))
            for member in self._node.board.changed():
                self._serve(coordinator, member)
            self._bury(coordinator)
            now, due = self._clock.now(), coordinator.engine.due()
            if now >= next_tick or (due is not None and now >= due):
                next_tick = now + _TICK
                coordinator.tick()
            after()

    def _patience(self, coordinator: Coordinator) -> float:
        due = coordinator.engine.due()
        return _TICK if due is None else min(_TICK, max(0.0, due - self._clock.now()))

    def _serve(self, coordinator: Coordinator, member: int) -> None:
        coordinator.look(member)
        while (data := self._up[member].take()) is not None:
            try:
                coordinator.receive(member, decode_from_member(data))
            except BadMessage:
                self.bad_messages += 1

    def _bury(self, coordinator: Coordinator) -> None:
        for member, death in self._learner.reap() + self._actors.reap():
            self._serve(coordinator, member)  # its last words come first
            if member not in self.pids():
                coordinator.died(member, death)

    def stop(self) -> None:
        """Tell every member to stop, wait for them, kill those that do not; reap all."""
        for member in range(self._node.site.members):
            self._down[member].clear()
            self.send(member, Stop())
        self._learner.stop(_STOP_SECONDS)
        self._actors.stop(_STOP_SECONDS)

    def kill(self) -> None:
        """End every member at once."""
        self._learner.stop(0.0)
        self._actors.stop(0.0)
