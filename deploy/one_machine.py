"""One machine: head and worker side in one supervisor process, learner and actors as processes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path

from artos.buffer.board import LEARNER, actor_member, template_member
from artos.clock import Clock
from artos.errors import BadMessage, CannotScale
from artos.messages import (
    FromMember,
    Invoke,
    Scaled,
    Stop,
    ToMember,
    decode_from_member,
    encode,
)
from deploy.control import ControlDesk
from deploy.muster import muster
from deploy.node import Node
from head.coordinator import Coordinator
from head.learner_host import LearnerHost
from head.status import Bill
from workers.checkpointer import Progress

_TICK = 0.25
_STOP_SECONDS = 5.0


class OneMachine:
    """The members of a run as processes of this machine, and the loop that serves them.

    Implements ``head.coordinator.Members``. Sleeps on the node's doorbell: a commit, a report, a
    death of a child and a signal all wake it. A request to stop breaks its sleep and nothing else:
    all that makes processes is ``undisturbed``, or some would be forgotten.
    """

    def __init__(
        self,
        node: Node,
        images: Path,
        clock: Clock,
        warn: Callable[[str], None],
        undisturbed: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._node, self._clock, self._undisturbed = node, clock, undisturbed
        self._template = template_member(node.site.members)
        self._desk = ControlDesk(node.board, node.site.members)
        self._learner = LearnerHost(node.plan, node.site, node.plan_file)
        self._actors = muster(node, images, self._put, self._progress, clock, warn)
        self._down = [node.board.down(member) for member in range(node.board.members)]
        self._up = [node.board.up(member) for member in range(node.board.members)]
        self._someone_ended, self._next_tick = True, 0.0
        self.bad_messages = 0

    def _put(self, member: int, message: ToMember) -> None:
        self._down[member].put(encode(message))

    def _progress(self, actor: int) -> Progress:
        block = self._node.blocks[actor]
        return Progress(block.written, self._node.weights.version)

    def bill(self) -> Bill:
        """What the actors cost so far."""
        accounts = self._actors.accounts
        return Bill(
            starts={kind: asdict(stats) for kind, stats in accounts.starts().items()},
            held_cpu_seconds=self._actors.held_seconds(),
            used_cpu_seconds=accounts.all_used_seconds(),
            parked_mb_seconds=accounts.parked_mb_seconds(),
        )

    def child_ended(self) -> None:
        """A child of this process ended (SIGCHLD): see which, in the loop. Safe in a handler."""
        self._someone_ended = True
        self._node.board.bell.ring()

    # -- head.coordinator.Members --------------------------------------------------------------

    def send(self, member: int, message: ToMember) -> None:
        """Have the learner do something now, an actor as soon as it has a slot."""
        if member == LEARNER or not isinstance(message, Invoke):
            self._put(member, message)
        else:
            self._actors.send(member, message)

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

    def prepare(self, member: int) -> None:
        """The actor takes part soon."""
        self._actors.prepare(member)

    def retire(self, member: int) -> None:
        """The actor takes no part any more."""
        self._actors.retire(member)

    # -- the loop ------------------------------------------------------------------------------

    def pids(self) -> dict[int, int]:
        """Process id by member number."""
        return self._learner.pids() | self._actors.pids()

    def run(self, coordinator: Coordinator, after: Callable[[], None]) -> None:
        """Start everything and serve until the coordinator is finished.

        ``after`` is called whenever something happened and at least four times a second.
        """
        coordinator.held_back = self._actors.held_back
        with self._undisturbed():
            coordinator.begin()
            self._learner.start()
            for actor in coordinator.actors:
                self._actors.start(actor_member(actor))
        self._next_tick = self._clock.now()
        while not coordinator.finished:
            self._node.board.bell.wait(self._patience(coordinator))
            with self._undisturbed():
                self._turn(coordinator)
            after()

    def _turn(self, coordinator: Coordinator) -> None:
        for member in self._node.board.changed():
            self._serve(coordinator, member)
        self._follow_children(coordinator)
        now, due = self._clock.now(), coordinator.engine.due()
        if now >= self._next_tick or (due is not None and now >= due):
            self._next_tick = now + _TICK
            coordinator.tick()
            self._actors.tick()
            self._someone_ended = True  # in case a signal was missed, and for what hangs

    def _patience(self, coordinator: Coordinator) -> float:
        due = coordinator.engine.due()
        return _TICK if due is None else min(_TICK, max(0.0, due - self._clock.now()))

    def _serve(self, coordinator: Coordinator, member: int) -> None:
        if member == self._desk.member:
            self.bad_messages += self._desk.serve(lambda actors: _scale(coordinator, actors))
            return
        if member < self._template:
            coordinator.look(member)
        while (data := self._up[member].take()) is not None:
            try:
                self._heard(coordinator, member, decode_from_member(data))
            except BadMessage:
                self.bad_messages += 1

    def _heard(self, coordinator: Coordinator, member: int, message: FromMember) -> None:
        if member == self._template:
            self._actors.template_said(message)
            return
        coordinator.receive(member, message)
        # Afterwards: what the answer made others or itself do is known by then.
        if member != LEARNER:
            self._actors.heard(member, message)

    def _follow_children(self, coordinator: Coordinator) -> None:
        if not self._someone_ended:
            return
        self._someone_ended = False
        self._actors.step()
        for member, death in self._learner.reap() + self._actors.reap():
            self._serve(coordinator, member)  # its last words come first
            if member not in self.pids():
                coordinator.died(member, death)

    def stop(self) -> None:
        """Tell every member to stop, wait for them, kill those that do not; reap all."""
        for member in range(self._node.site.members):
            self._down[member].clear()
            self._put(member, Stop())
        self._learner.stop(_STOP_SECONDS)
        self._actors.stop(_STOP_SECONDS)

    def kill(self) -> None:
        """End every member at once."""
        self._learner.stop(0.0)
        self._actors.stop(0.0)


def _scale(coordinator: Coordinator, actors: int) -> Scaled:
    most = coordinator.plan.actors
    try:
        coordinator.scale(actors)
    except CannotScale as error:
        return Scaled(len(coordinator.actors), most, str(error))
    return Scaled(actors, most)
