"""One actor of a run as the head sees it: where it lives, and what is under way with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import StrEnum

from artos.buffer.actor_block import ActorBlock
from artos.buffer.mailbox import actor_member
from artos.protocol.invocations import Done, FromMember, Invoke
from artos.protocol.steering import ActorReport, Call, Died, End, Prepare, Retire, Start
from artos.system.exit_report import ExitReport
from artos.transitions import after
from artos.transport.messenger import Messenger
from triggers.engine import ZmqPasser


class State(StrEnum):
    """How far an actor is at its place."""

    UNPLACED = "unplaced"
    """No executor knows of it: it waits for a node, an executor there, or the replay buffer."""
    NODE_LOST = "node_lost"
    """Unplaced: its process went with its node, and the coordinator has not dealt with it yet."""
    PLACED = "placed"
    """On its node, where it is to have no process."""
    LAUNCHED = "launched"
    """Its executor was told to bring up a process, which has no call, and no weights, yet."""
    CALLED = "called"
    """Its process was given a call."""


class Event(StrEnum):
    """What can happen to an actor's place."""

    ENTER = "enter"
    """The executor of its node is up, and the replay buffer knows its term."""
    LAUNCH = "launch"
    """Its executor is told to start or to prepare it."""
    CALL = "call"
    """Its process is given something to do."""
    END = "end"
    """The coordinator has what is left of its process killed."""
    LEAVE = "leave"
    """It goes elsewhere, where its next term begins."""
    LOSE = "lose"
    """Its node, or the executor there, is gone."""


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
    """An actor's place and the edge to it: it carries invocations there (``MessagePasser``).

    ``node`` is where it lives or, while it is unplaced, is to live ("" if nowhere yet). ``target``
    is where the head daemon wants it; while that is another node it is leaving, and keeps calls
    back. Its rows at this place begin with ``base`` and count as ``term``. ``wanted`` is how it is
    brought up wherever it comes to, None if it is not (any more).

    ``waiting`` calls wait for a process, ``given`` ones for an answer. ``reports`` wait for the
    rows they speak of; ``committed`` counts the rows known of. ``published`` tells the newest
    policy version that actors can have.
    """

    def __init__(
        self, block: ActorBlock, steering: Messenger, published: Callable[[], int]
    ) -> None:
        self._block, self._steering, self._published = block, steering, published
        self.number, self.member = block.spec.actor, actor_member(block.spec.actor)
        self.state, self.term, self.base = State.UNPLACED, 0, 0
        self.wanted: type[Start | Prepare] | None = None
        self.waiting: deque[Call] = deque()
        self.given: deque[Call] = deque()
        self._reports: deque[ActorReport | Died] = deque()
        self.committed = 0
        self.bind("")

    # -- where it is ---------------------------------------------------------------------------

    @property
    def is_placed(self) -> bool:
        """Whether the executor of its node was told of it."""
        return self.state in (State.PLACED, State.LAUNCHED, State.CALLED)

    @property
    def has_process(self) -> bool:
        """Whether its executor was told to bring it up, and not to end it since."""
        return self.state in (State.LAUNCHED, State.CALLED)

    @property
    def is_leaving(self) -> bool:
        """Whether it goes elsewhere once nothing is under way."""
        return self.target != self.node

    @property
    def may_enter(self) -> bool:
        """Whether it waits for nothing but an executor: its term is known where rows go."""
        return self.state is State.UNPLACED and self._block.incarnation == self.term

    def bind(self, node: str) -> None:
        """It is to live on this node, "" for none."""
        self.node = self.target = node
        self._executor = ZmqPasser(self._steering, node)

    def enter(self) -> None:
        """It is at its place."""
        self._move(Event.ENTER)

    def leave(self, *, by_image: bool) -> None:
        """It goes to its target, with its memory if its image is known to be of use there."""
        if self.has_process:
            self._executor.pass_message(End(self.member, by_image))
        self._move(Event.LEAVE)

    def lose(self) -> bool:
        """Its place is gone; returns whether a process of it is gone with it."""
        self._move(Event.LOSE)
        return self.state is State.NODE_LOST

    def begin_term(self, base: int) -> None:
        """Its next term begins with this row; what it was at before is void."""
        self.term, self.base, self.committed = self.term + 1, base, base
        self.given.clear()
        self._reports.clear()

    def _move(self, event: Event) -> None:
        self.state = after(TABLE, self.state, event)

    # -- its process ---------------------------------------------------------------------------

    def launch(self, image: int) -> None:
        """Have it brought up as ``wanted``, from the image of that number (0: none)."""
        assert self.wanted is not None
        self._move(Event.LAUNCH)
        self._executor.pass_message(self.wanted(self.member, self.term, self.base, image))
        self.pass_on()

    def end(self) -> None:
        """Have what is left of its process killed; it is not brought up again by itself."""
        self.wanted = None
        self.forget_calls()
        if self.has_process:
            self._executor.pass_message(End(self.member))
        self._move(Event.END)

    def retire(self) -> None:
        """Have its process put away; it is not brought up at another place."""
        self.wanted = None
        if self.has_process:
            self._executor.pass_message(Retire(self.member))

    # -- calls ---------------------------------------------------------------------------------

    def pass_message(self, message: Invoke) -> None:
        """Have it do this as soon as its process is where it should be."""
        version = self._published() if message.bind else -1
        self.waiting.append(Call(self.member, message, version))
        self.pass_on()

    def pass_on(self) -> None:
        """Give it what waits, if it may have it."""
        while self.waiting and self.has_process and not self.is_leaving:
            self._give(self.waiting.popleft())

    def _give(self, call: Call) -> None:
        if self.state is State.LAUNCHED:
            # It has no weights yet, and its node may have older ones than it had before.
            call = Call(call.member, call.call, self._published())
        self._move(Event.CALL)
        self.given.append(call)
        self._executor.pass_message(call)

    def forget_calls(self) -> None:
        """Whatever it was asked to do is void; it is asked again."""
        self.waiting.clear()
        self.given.clear()

    # -- reports -------------------------------------------------------------------------------

    @property
    def _arrived(self) -> int:
        return self._block.written if self._block.incarnation == self.term else self.base

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way: it may go elsewhere without losing anything."""
        return not self.given and not self._reports and self._arrived >= self.committed

    def is_from_here(self, node: str, report: ActorReport | Died) -> bool:
        """Whether a report is of the place where it lives now."""
        return self.is_placed and node == self.node and report.term == self.term

    def has_committed(self, node: str, rows: int) -> None:
        """So many rows of it are on a node."""
        if self.is_placed and node == self.node:
            self.committed = max(self.committed, rows)

    def heard(self, report: ActorReport | Died) -> None:
        """It reported; that counts once the rows are there."""
        self.committed = max(self.committed, report.written)
        self._reports.append(report)

    def counting(self) -> list[FromMember | ExitReport]:
        """Reports whose rows have arrived, oldest first; each is told once."""
        counting: list[FromMember | ExitReport] = []
        while self._reports and self._reports[0].written <= self._arrived:
            counting.append(self._take(self._reports.popleft()))
        return counting

    def _take(self, report: ActorReport | Died) -> FromMember | ExitReport:
        if isinstance(report, Died):
            why = f"on node {self.node}: {report.why}"
            return ExitReport(why, report.step, own=report.own, fatal=report.fatal)
        told = report.told
        if isinstance(told, Done) and self.given and self.given[0].call.firing == told.firing:
            self.given.popleft()
        return told

    def __repr__(self) -> str:
        return f"<ActorPlacement {self.number} {self.state} on {self.node or 'no node'}>"
