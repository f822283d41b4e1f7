"""One actor of a run as the head sees it: where it lives, its calls and its reports."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import StrEnum

from artos.buffer.actor_block import ActorBlock
from artos.protocol.invocations import Done, FromMember, Invoke, Ready
from artos.protocol.steering import (
    ActorReport,
    Call,
    Died,
    End,
    HeldState,
    Prepare,
    Retire,
    Start,
)
from artos.runtime.held import Held
from artos.specs.members import ACTORS, Member
from artos.system.exit_report import ExitReport
from artos.system.transitions import after
from artos.transport.messenger import Messenger
from head.run.remote.held_file import HeldFile
from triggers.passers import ZmqPasser

Published = tuple[int, dict[str, int]]
AnyReport = ActorReport | Died | HeldState


class State(StrEnum):
    """The state of an actor at its place."""

    UNPLACED = "unplaced"
    """No executor has the actor: it waits for a node, an executor there, or the replay buffer."""
    NODE_LOST = "node_lost"
    """Unplaced: its process died with its node; the coordinator has not handled its death yet."""
    PLACED = "placed"
    """The actor has a node, but is to have no process there."""
    LAUNCHED = "launched"
    """The executor was told to launch a process, which has neither a call nor weights yet."""
    CALLED = "called"
    """The actor's process was given a call."""


class Event(StrEnum):
    """What can happen to an actor at its place."""

    ENTER = "enter"
    """The executor of the actor's node is warm, and the replay buffer knows the actor's term."""
    LAUNCH = "launch"
    """The executor is told to start or to prepare the actor."""
    CALL = "call"
    """The actor's process is given a call."""
    END = "end"
    """The coordinator has the actor's process killed."""
    LEAVE = "leave"
    """The actor moves to another node, where its next term begins."""
    LOSE = "lose"
    """The actor's node, or the executor there, is gone."""


TABLE: dict[tuple[State, Event], State] = {
    (State.UNPLACED, Event.ENTER): State.PLACED,
    (State.UNPLACED, Event.END): State.UNPLACED,
    (State.NODE_LOST, Event.END): State.UNPLACED,
    (State.PLACED, Event.LAUNCH): State.LAUNCHED,
    (State.PLACED, Event.END): State.PLACED,
    (State.PLACED, Event.LEAVE): State.UNPLACED,
    (State.PLACED, Event.LOSE): State.UNPLACED,
    (State.LAUNCHED, Event.LAUNCH): State.LAUNCHED,
    (State.LAUNCHED, Event.CALL): State.CALLED,
    (State.LAUNCHED, Event.END): State.PLACED,
    (State.LAUNCHED, Event.LEAVE): State.UNPLACED,
    (State.LAUNCHED, Event.LOSE): State.NODE_LOST,
    (State.CALLED, Event.LAUNCH): State.LAUNCHED,
    (State.CALLED, Event.CALL): State.CALLED,
    (State.CALLED, Event.END): State.PLACED,
    (State.CALLED, Event.LEAVE): State.UNPLACED,
    (State.CALLED, Event.LOSE): State.NODE_LOST,
}


class ActorPlacement:
    """An actor's place, and the ``MessagePasser`` that carries invocations to the actor.

    ``published`` returns the newest policy version that actors can have, and those of other
    learners of which they read something, by name.
    """

    node: str
    """Where the actor lives or, while it is unplaced, is to live ("" if nowhere yet)."""
    target: str
    """The node that the head daemon has chosen; while it is another one than ``node``, the actor is
    leaving and gets no calls."""
    awaits: str
    """The node that it is to leave for once it can be at work there, "" for none."""

    def __init__(
        self,
        block: ActorBlock,
        steering: Messenger,
        published: Callable[[], Published],
        held: HeldFile,
    ) -> None:
        self._block, self._steering, self._published = block, steering, published
        self.number, self.member = block.spec.actor, Member(ACTORS, block.spec.actor)
        self.held = held
        """What it goes on from, and what it held in the end."""
        self.state = State.UNPLACED
        self.term, self.base = 0, 0
        """The term of this place, and the first row that the actor writes here."""
        self.wanted: type[Start | Prepare] | None = None
        """How the actor is launched at every place; None if it is not to be launched."""
        self.within = 0.0
        """How many seconds its preparation may take."""
        self.waiting: deque[Call] = deque()
        """Calls that wait for a process."""
        self.given: deque[Call] = deque()
        """Calls that wait for an answer."""
        self._reports: deque[ActorReport | Died] = deque()  # kept until their rows have arrived
        self.committed = 0
        """Rows that the actor is known to have committed."""
        self.came = False
        """Whether its process came here as an image, and shares memory with actors elsewhere."""
        self.memory = 0
        """The bundle with that memory, if it was not in the image's; it needs it to move on."""
        self.bind("")

    # -- where it is ---------------------------------------------------------------------------

    @property
    def is_placed(self) -> bool:
        """Whether the actor has entered its node."""
        return self.state in (State.PLACED, State.LAUNCHED, State.CALLED)

    @property
    def has_process(self) -> bool:
        """Whether the executor was told to launch the actor, and not to end it since."""
        return self.state in (State.LAUNCHED, State.CALLED)

    @property
    def is_leaving(self) -> bool:
        """Whether the actor moves to another node once it is idle."""
        return self.target != self.node

    @property
    def may_enter(self) -> bool:
        """Whether the actor only waits for an executor: the replay buffer knows its term."""
        return self.state is State.UNPLACED and self._block.incarnation == self.term

    def bind(self, node: str) -> None:
        """The actor is to live on this node, "" for none."""
        self.node = self.target = node
        self.awaits = ""
        self._executor = ZmqPasser(self._steering, node)

    def enter(self) -> None:
        """The actor is at its place."""
        self._move(Event.ENTER)

    def leave(self, *, by_bundle: bool) -> None:
        """The actor leaves for its target; ``by_bundle``: to go on there from its bundle."""
        if self.has_process:
            self._executor.pass_message(End(self.member, by_bundle))
        self._move(Event.LEAVE)

    def lose(self) -> bool:
        """The actor's place is gone; returns whether a process of the actor is gone with it."""
        self._move(Event.LOSE)
        return self.state is State.NODE_LOST

    def begin_term(self, base: int) -> None:
        """The next term begins with row ``base``; calls and reports of the last one are void."""
        self.term, self.base, self.committed = self.term + 1, base, base
        self.held.at(base)
        self.given.clear()
        self._reports.clear()

    def _move(self, event: Event) -> None:
        self.state = after(TABLE, self.state, event)

    # -- its process ---------------------------------------------------------------------------

    def launch(self, bundle: int, *, held: bool = False, memory: int = 0) -> None:
        """Have the actor launched as ``wanted``, from the bundle of that number (0: none).

        ``held``: which is what it held, and no image; ``memory``: the bundle that this needs.
        """
        assert self.wanted is not None
        self._move(Event.LAUNCH)
        self.memory = memory
        if data := self.held.to_send():
            self._executor.pass_message(HeldState(self.member, self.term, content=data))
        if self.wanted is Prepare:
            message: Start | Prepare = Prepare(
                self.member, self.term, self.base, bundle, self.within, held, memory
            )
        else:
            message = Start(self.member, self.term, self.base, bundle, held, memory)
        self._executor.pass_message(message)
        self.pass_on()

    def prewarm(self) -> None:
        """Have the actor's process back if it waits as an image, unless the actor is leaving."""
        if self.has_process and not self.is_leaving:
            self._executor.pass_message(Prepare(self.member, self.term, self.base, 0, self.within))

    def end(self) -> None:
        """Have the actor's process killed; it is not launched again until ``wanted`` is set."""
        self.wanted = None
        self.forget_calls()
        if self.has_process:
            self._executor.pass_message(End(self.member))
        self._move(Event.END)

    def retire(self) -> None:
        """Have the actor's process parked for good; it is not launched at another place."""
        self.wanted = None
        if self.has_process:
            self._executor.pass_message(Retire(self.member))

    # -- calls ---------------------------------------------------------------------------------

    def pass_message(self, message: Invoke) -> None:
        """Send the invocation as soon as the actor's process is where it should be."""
        versions = self._published() if message.bind else ()
        self.waiting.append(Call(self.member, message, *versions))
        self.pass_on()

    def pass_on(self) -> None:
        """Send the waiting calls, if the actor has a process and is not leaving."""
        while self.waiting and self.has_process and not self.is_leaving:
            call = self.waiting.popleft()
            if self.state is State.LAUNCHED:
                # The process has no weights yet, and its node may have older ones than the node
                # that the actor left.
                call = Call(call.member, call.call, *self._published())
            self._move(Event.CALL)
            self.given.append(call)
            self._executor.pass_message(call)

    def forget_calls(self) -> None:
        """All calls are void; the coordinator sends them again."""
        self.waiting.clear()
        self.given.clear()

    # -- reports -------------------------------------------------------------------------------

    @property
    def _arrived(self) -> int:
        return self._block.written if self._block.incarnation == self.term else self.base

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way, so that the actor can move without losing anything."""
        return not self.given and not self._reports and self._arrived >= self.committed

    def is_from_here(self, node: str, report: AnyReport) -> bool:
        """Whether a report comes from the place where the actor lives now."""
        return self.is_placed and node == self.node and report.term == self.term

    def has_committed(self, node: str, rows: int) -> None:
        """The actor has committed so many rows on a node."""
        if self.is_placed and node == self.node:
            self.committed = max(self.committed, rows)

    def heard(self, report: AnyReport) -> None:
        """Keep a report until its rows have arrived, and what the actor held for the next part."""
        if isinstance(report, HeldState):
            self.held.keep(Held(bytes(report.content), report.why))
            return
        if isinstance(report, ActorReport) and isinstance(report.told, Ready):
            self.came = report.told.start == "moved"
            self.memory = self.memory if self.came else 0
            self.held.taken_up()
        self.committed = max(self.committed, report.written)
        self._reports.append(report)

    def counting(self) -> list[FromMember | ExitReport]:
        """Reports whose rows have arrived, oldest first; each is returned once."""
        counting: list[FromMember | ExitReport] = []
        while self._reports and self._reports[0].written <= self._arrived:
            report = self._reports.popleft()
            if isinstance(report, Died):
                why = f"on node {self.node}: {report.why}"
                counting.append(ExitReport(why, report.step, own=report.own, fatal=report.fatal))
                continue
            told = report.told
            if isinstance(told, Done) and self.given and self.given[0].call.firing == told.firing:
                self.given.popleft()
            counting.append(told)
        return counting

    def __repr__(self) -> str:
        return f"<ActorPlacement {self.number} {self.state} on {self.node or 'no node'}>"
