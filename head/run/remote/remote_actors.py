"""The actors of a run that live on worker nodes (paper §4.1, §4.3).

They are reached through the executors of the run, one per node. What an executor reports of an
actor counts once the rows it speaks of are in the head's block, so nothing is learnt from before it
is there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import msgspec

from artos.buffer.actor_block import ActorBlock
from artos.buffer.mailbox import actor_member
from artos.errors import BadMessage
from artos.protocol import control
from artos.protocol.invocations import FromMember, Ready
from artos.protocol.message import Message, Restarted
from artos.protocol.steering import (
    ActorReport,
    BundlePiece,
    BundleRejected,
    CloseExecutor,
    Died,
    ExecutorClosed,
    ExecutorNews,
    ExecutorUp,
    Packed,
    Prepare,
    ReadPiece,
    Start,
)
from artos.system.exit_report import ExitReport
from artos.transport.messenger import Messenger
from head.run.remote.actor_placement import ActorPlacement, State
from head.run.remote.bundles import Bundles
from head.run.remote.node_usage import NodeUsage
from head.run.remote.placement_view import PlacementView


class Books(Protocol):
    """What actors that move are to the coordinator."""

    @property
    def published(self) -> int:
        """The newest policy version that actors can have, whether or not it is announced yet."""

    def place_anew(self, actor: int, term: int, committed: int, node: str) -> int:
        """The actor leaves its place; returns the row that it begins its next one with."""

    def restarting(self, member: int) -> None:
        """The actor goes on elsewhere; it reports ``Ready`` there."""


class RemoteActors:
    """The actors' half of ``Members``: an actor is told by way of its node's executor.

    ``passers`` are the actors' placements, by member number. ``steering`` sends messages to the
    executors, ``terms`` tells the replay buffer the term, the base and the node of actors that
    change their place, ``silent`` knows for how long a node was not heard. An actor that moves goes
    on there as it was, by its image, if that can be had (``bundles``).
    """

    def __init__(
        self,
        blocks: Mapping[int, ActorBlock],
        epoch: int,
        steering: Messenger,
        terms: Callable[[dict[int, int], dict[int, int], dict[int, str]], None],
        silent: Callable[[str], float],
        bundles: Bundles,
    ) -> None:
        self._epoch, self._steering = epoch, steering
        self._tell_terms, self._bundles = terms, bundles
        self.passers = {
            actor_member(actor): ActorPlacement(block, steering, lambda: self._books.published)
            for actor, block in blocks.items()
        }
        self._to_enter: dict[ActorPlacement, None] = {}
        self._new_terms: dict[ActorPlacement, None] = {}
        self._looked_for: dict[ActorPlacement, None] = {}
        self._reports: deque[tuple[int, FromMember | ExitReport]] = deque()
        self._closing = False
        self.nodes = NodeUsage()
        self.placement_view = PlacementView(self.passers, self.nodes, silent, bundles.origin)

    def begin(self, books: Books) -> None:
        """The first term of every actor begins."""
        self._books = books
        for actor in self.passers.values():
            self._begin_term(actor)

    def close(self) -> None:
        """The run is over: all executors are closed; what becomes of the actors does not matter."""
        self._closing = True
        for node in self.nodes.open:
            self._steering.send(node, CloseExecutor())

    # -- Members -------------------------------------------------------------------------------

    def start(self, member: int) -> None:
        """Have its executor start it, once it has one."""
        self.passers[member].forget_calls()
        self._bring_up(self.passers[member], Start)

    def prepare(self, member: int) -> None:
        """Have its executor prepare it, once it has one."""
        self._bring_up(self.passers[member], Prepare)

    def end(self, member: int) -> None:
        """Have its executor kill what is left of it."""
        actor = self.passers[member]
        self._bundles.drop(actor.number)
        actor.end()
        self._leave_if_idle(actor)

    def retire(self, member: int) -> None:
        """Have its executor put it away; it is not brought up at another place."""
        actor = self.passers[member]
        self._bundles.drop(actor.number)
        self._looked_for[actor] = None  # it need not wait for its bundle any more
        actor.retire()

    def _bring_up(self, actor: ActorPlacement, how: type[Start | Prepare]) -> None:
        actor.wanted = how
        if actor.is_placed:
            self._launch(actor)

    def _launch(self, actor: ActorPlacement) -> None:
        actor.launch(self._bundles.send(actor.number, actor.node))

    # -- what the head daemon says -------------------------------------------------------------

    def placed(self, message: control.Placed) -> None:
        """The head daemon says where actors are to live from now on."""
        for node in message.gone:
            self._lose(node, message.why or "it was not heard of any more")
        for actor in self.passers.values():
            self._go(actor, message.actors.get(actor.number, ""))

    def _go(self, actor: ActorPlacement, node: str) -> None:
        if not actor.is_placed:
            self._bind(actor, node)
            return
        actor.target = node
        if actor.is_leaving:
            self._leave_if_idle(actor)
        else:
            self._bundles.stay(actor.number)
            actor.pass_on()

    # -- what executors report ---------------------------------------------------------------------

    def heard(self, node: str, message: Message) -> None:
        """An executor reported.

        Raises:
            BadMessage: it makes no sense, and changed nothing.
        """
        match message:
            case ExecutorUp(epoch=self._epoch, criu=criu):
                self._lose(node, "its executor was started anew")
                self.nodes.begin(node, criu)
                self._to_enter |= dict.fromkeys(self._bound_for(node))
            case Restarted():
                self._lose(node, "its executor is gone")
            case _ if node in self.nodes:
                self._reported(node, message)

    def _reported(self, node: str, message: Message) -> None:
        match message:
            case ActorReport() | Died():
                actor = self.passers.get(message.member)
                if actor is None:
                    raise BadMessage(f"there is no member {message.member}")
                if actor.is_from_here(node, message):
                    actor.heard(self._unpacked(actor, message))
                    self._looked_for[actor] = None
            case ExecutorNews():
                self.nodes.news(node, message)
                for number, rows in message.written.items():
                    if actor := self.passers.get(actor_member(number)):
                        actor.has_committed(node, rows)
            case Packed() | ReadPiece() | BundlePiece() | BundleRejected():
                if (settled := self._bundles.heard(node, message)) is not None:
                    self._looked_for[self.passers[actor_member(settled)]] = None
            case ExecutorClosed():
                self.nodes.last_bill(node, message.usage)
                self._lose(node, "its executor was closed")
            case _:
                raise BadMessage(f"{type(message).__name__} is nothing to tell a run")

    def _unpacked(self, actor: ActorPlacement, message: ActorReport | Died) -> ActorReport | Died:
        """What an actor says first at its new place: it needs its bundle no more."""
        if not (origin := self._bundles.origin(actor.number)):
            return message
        self._bundles.drop(actor.number)
        match message:
            case ActorReport(told=Ready(start="moved") as told):
                told = msgspec.structs.replace(told, moved=(origin, actor.node))
                return msgspec.structs.replace(message, told=told)
        return message

    def arrived(self, member: int) -> None:
        """Rows of the actor arrived: something it reported may count now."""
        self._looked_for[self.passers[member]] = None

    def reports(self) -> Iterator[tuple[int, FromMember | ExitReport]]:
        """What members reported and counts by now, oldest first per member."""
        looked_for, self._looked_for = self._looked_for, {}
        for actor in looked_for:
            self._collect(actor)
            self._leave_if_idle(actor)
        while self._reports:
            member, report = self._reports.popleft()
            handled = self.passers[member].state is not State.NODE_LOST
            if not (isinstance(report, _NodeLost) and handled):
                yield member, report

    def _collect(self, actor: ActorPlacement) -> None:
        self._reports.extend((actor.member, report) for report in actor.counting())

    def node_of(self, member: int) -> str:
        """Where the actor lives, or is to live."""
        return self.passers[member].node

    # -- from place to place -------------------------------------------------------------------

    def step(self) -> None:
        """Send those to their place whose term the replay buffer knows."""
        late = map(actor_member, self._bundles.give_up_late())
        self._looked_for |= dict.fromkeys(self.passers[member] for member in late)
        self._spread_terms()
        to_enter, self._to_enter = self._to_enter, {}
        for actor in to_enter:
            if actor.is_placed or actor.node not in self.nodes:
                continue
            if actor.may_enter:
                self._enter(actor)
            else:
                self._to_enter[actor] = None

    def _spread_terms(self) -> None:
        if self._new_terms:
            actors, self._new_terms = [*self._new_terms], {}
            self._tell_terms(
                {actor.number: actor.term for actor in actors},
                {actor.number: actor.base for actor in actors},
                {actor.number: actor.node for actor in actors},
            )

    def _enter(self, actor: ActorPlacement) -> None:
        actor.enter()
        if actor.wanted is not None:
            self._launch(actor)
        elif actor.waiting:  # put away on its way here: it does what it was asked for before
            self._bring_up(actor, Prepare)
            actor.retire()

    def _leave_if_idle(self, actor: ActorPlacement) -> None:
        if not (actor.is_placed and actor.is_leaving and actor.is_idle):
            return
        if self._goes_by_image(actor) and not self._bundles.is_settled(actor.number):
            self._bundles.want(actor.number, actor.node)
            return
        node = actor.node
        actor.leave(by_image=bool(self._bundles.origin(actor.number)))
        if actor.wanted is not None or actor.waiting:
            self._books.restarting(actor.member)
        self._begin_term(actor, node)

    def _goes_by_image(self, actor: ActorPlacement) -> bool:
        """Whether there may be an image of it that is of use where it goes."""
        lives = actor.has_process and actor.wanted is not None
        return lives and self.nodes.images_fit(actor.node, actor.target)

    def _lose(self, node: str, why: str) -> None:
        """A node, or its executor, is gone; so is what its actors committed and nobody received."""
        self.nodes.end(node, why)
        self._bundles.lost(node)
        for actor in () if self._closing else self._bound_for(node):
            if actor.is_placed:
                self._collect(actor)
                self._bundles.drop(actor.number)
                if actor.lose():
                    death = _NodeLost(f"node {node} is gone: {why}", own=False)
                    self._reports.append((actor.member, death))
                self._begin_term(actor, node)

    def _begin_term(self, actor: ActorPlacement, left: str = "") -> None:
        base = self._books.place_anew(actor.number, actor.term + 1, actor.committed, left)
        self._bundles.leave(actor.number)
        actor.begin_term(base)
        self._bind(actor, actor.target)

    def _bind(self, actor: ActorPlacement, node: str) -> None:
        actor.bind(node)
        self._to_enter[actor] = None
        self._new_terms[actor] = None

    def _bound_for(self, node: str) -> list[ActorPlacement]:
        return [actor for actor in self.passers.values() if actor.node == node]

    def __repr__(self) -> str:
        placed = sum(actor.is_placed for actor in self.passers.values())
        return f"<RemoteActors {placed} of {len(self.passers)} at their place>"


class _NodeLost(ExitReport):
    """An actor went with its node; void once the coordinator has ended it for another reason."""
