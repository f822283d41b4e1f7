"""The actors of a run that live on worker nodes (paper §4.1, §4.3).

The run reaches them through its executors, one per node. A report of an actor counts once the
rows that it reports are in the head's block, so no row is learned from before it has arrived.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from artos.buffer.actor_block import ActorBlock
from artos.clock import Clock
from artos.errors import BadMessage
from artos.protocol import control
from artos.protocol.invocations import Branch, FromMember, Ready, StartKind
from artos.protocol.message import Message, Restarted
from artos.protocol.steering import (
    ActorBranched,
    ActorReport,
    BundlePiece,
    BundleRejected,
    CloseExecutor,
    Died,
    ExecutorClosed,
    ExecutorNews,
    ExecutorUp,
    HeldState,
    Packed,
    Prepare,
    ReadPiece,
    Start,
)
from artos.specs.members import ACTORS, Member
from artos.system.exit_report import ExitReport
from artos.transport.messenger import Messenger
from head.run.remote.actor_placement import ActorPlacement, AnyReport, State
from head.run.remote.bundles import Bundles
from head.run.remote.departures import Departures
from head.run.remote.held_file import HeldFile
from head.run.remote.memories import Memories
from head.run.remote.node_usage import NodeUsage
from head.run.remote.placement_view import PlacementView
from head.run.remote.remote_branches import RemoteBranches
from head.run.remote.remote_servers import RemoteServers


class Bookkeeper(Protocol):
    """The coordinator's part in moving an actor."""

    @property
    def published(self) -> int:
        """The newest policy version that actors can have, whether or not it is announced yet."""

    @property
    def published_beside(self) -> dict[str, int]:
        """The same of each other learner of which actors read something, by name."""

    def place_anew(
        self, actor: int, term: int, committed: int, node: str, *, goes_on: bool = False
    ) -> int:
        """The actor leaves its place; returns the first row of its next place."""

    def restarting(self, member: Member) -> None:
        """The actor goes on at its next place; it reports ``Ready`` there."""


class RemoteActors:
    """The actors' half of ``Processes``: commands to an actor go to its node's executor.

    ``steering`` sends messages to the executors, ``terms`` tells the replay buffer the term, the
    base and the node of actors that change their place, ``silent`` returns the seconds since a node
    was last heard. An actor that moves goes on from its bundle on the new node, if that
    can be had (``bundles``), and what it shares with others is brought there first (``memories``).
    What an actor goes on from, or held when it ended, is in a file of ``held_path``. ``weights``
    reads those that an order to branch names.
    """

    def __init__(
        self,
        blocks: Mapping[int, ActorBlock],
        epoch: int,
        steering: Messenger,
        terms: Callable[[dict[int, int], dict[int, int], dict[int, str]], None],
        silent: Callable[[str], float],
        bundles: Bundles,
        memories: Memories,
        held_path: Callable[[Member], Path],
        clock: Clock,
        weights: Callable[[Branch], bytes],
        servers: Sequence[Member] = (),
    ) -> None:
        self._epoch, self._steering = epoch, steering
        self._tell_terms, self._bundles, self._memories = terms, bundles, memories
        self.passers = {
            (member := Member(ACTORS, actor)): ActorPlacement(
                block,
                steering,
                lambda: (self._bookkeeper.published, self._bookkeeper.published_beside),
                HeldFile(member, held_path(member), len(blocks)),
            )
            for actor, block in blocks.items()
        }
        """The actors' placements."""
        self._to_enter: dict[ActorPlacement, None] = {}
        self._new_terms: dict[ActorPlacement, None] = {}
        self._to_check: dict[ActorPlacement, None] = {}
        self._reports: deque[tuple[Member, FromMember | ExitReport]] = deque()
        self._closing = False
        self.emptied = False
        """Whether the last actor of a node has moved; until that is reported."""
        self.nodes = NodeUsage()
        self._departures = Departures(self.nodes, memories, clock)
        self.servers = RemoteServers(servers, steering.send)
        """What answers the actors, on their nodes."""
        self.placement_view = PlacementView(self.passers, self.nodes, silent, bundles.origin)
        self.branches = RemoteBranches(
            self.passers, self.placement_view.unplaced, steering.send, weights
        )
        """Episodes that are being continued, on the nodes of their actors."""

    def begin(self, bookkeeper: Bookkeeper) -> None:
        """The first term of every actor begins."""
        self._bookkeeper = bookkeeper
        for actor in self.passers.values():
            actor.held.begin()
            self._begin_term(actor)

    def close(self, *, hand_over: bool = False) -> None:
        """The run is over: close all executors, whatever becomes of the actors.

        ``hand_over``: they send what the actors held when they ended.
        """
        self._closing = True
        for node in self.nodes.open:
            self._steering.send(node, CloseExecutor(hand_over))

    # -- Processes ----------------------------------------------------------------------------

    def start(self, member: Member) -> None:
        """Have the actor, or the server, started by its executor, once it has one."""
        if member in self.servers:
            self.servers.start(member)
            return
        self.passers[member].forget_calls()
        self._bring_up(self.passers[member], Start)

    def prepare(self, member: Member, within: float = 0.0) -> None:
        """Have the actor prepared by its executor, once it has one."""
        actor = self.passers[member]
        actor.within = within
        if actor.wanted is None:
            self._bring_up(actor, Prepare)
        else:
            actor.prewarm()

    def end(self, member: Member) -> None:
        """Have the actor's process killed by its executor, or a server's that is not ready."""
        if member in self.servers:
            self.servers.end(member)
            return
        actor = self.passers[member]
        self._bundles.drop(actor.number)
        actor.end()
        self._leave_if_idle(actor)

    def retire(self, member: Member) -> None:
        """Have the actor parked for good by its executor; it is not launched at another place."""
        actor = self.passers[member]
        self._bundles.drop(actor.number)
        self._to_check[actor] = None  # it need not wait for its bundle any more
        actor.retire()

    def _bring_up(self, actor: ActorPlacement, how: type[Start | Prepare]) -> None:
        actor.wanted = how
        if actor.is_placed:
            self._launch(actor)

    def _launch(self, actor: ActorPlacement) -> None:
        bundle = self._bundles.send(actor.number, actor.node)
        without = self._bundles.without(actor.number)
        memory = self._memories.offer(without, actor.node) if without else 0
        actor.launch(bundle, held=self._bundles.held(actor.number), memory=memory)

    # -- messages of the head daemon -----------------------------------------------------------

    def placed(self, message: control.Placed) -> None:
        """The head daemon has decided where actors are to live from now on."""
        for node in message.gone:
            self._lose(node, message.why or "it has been silent for too long")
        for actor in self.passers.values():
            target = message.actors.get(actor.number, "")
            if not actor.is_placed:
                self._bind(actor, target)
                continue
            self._departures.place(actor, target, hurry=not message.relief)
            if actor.is_leaving:
                self._leave_if_idle(actor)
            else:
                self._bundles.stay(actor.number)
                actor.pass_on()

    # -- reports of executors ------------------------------------------------------------------

    def heard(self, node: str, message: Message) -> None:
        """An executor reported.

        Raises:
            BadMessage: the report makes no sense; it changed nothing.
        """
        match message:
            case ExecutorUp(epoch=self._epoch, criu=criu, warm=warm):
                anew = not warm or node not in self.nodes or self.nodes.is_warm(node)
                if anew:
                    self._lose(node, "its executor was restarted")
                self.nodes.begin(node, criu, warm=warm)
                if self._closing:
                    if anew:  # it came too late to be told with the others
                        self._steering.send(node, CloseExecutor())
                    return
                if warm:
                    self.servers.joined(node, self._bookkeeper.restarting)
                    self._to_enter |= dict.fromkeys(self._bound_for(node))
            case Restarted():
                self._lose(node, "its executor is gone")
            case _ if node in self.nodes:
                if isinstance(message, ActorBranched):
                    self.branches.heard(node, message)
                elif not self._memories.heard(node, message):
                    self._reported(node, message)
                elif isinstance(message, ReadPiece):
                    self._bundles.sign_of(node)

    def _reported(self, node: str, message: Message) -> None:
        match message:
            case ActorReport() | Died() if message.member in self.servers:
                there = (each for each in self.passers.values() if each.node == node)
                self.servers.heard(node, message, tuple(each.number for each in there))
            case HeldState() if not self._closing:
                raise BadMessage(f"nobody has asked {node} what its actors hold")
            case ActorReport() | Died() | HeldState():
                actor = self.passers.get(message.member)
                if actor is None:
                    raise BadMessage(f"no {message.member} of this run has a place")
                if actor.is_from_here(node, message):
                    actor.heard(self._unpacked(actor, message))
                    self._to_check[actor] = None
            case ExecutorNews():
                self.nodes.news(node, message)
                for number, rows in message.written.items():
                    if actor := self.passers.get(Member(ACTORS, number)):
                        actor.has_committed(node, rows)
            case Packed() | ReadPiece() | BundlePiece() | BundleRejected():
                if (settled := self._bundles.heard(node, message)) is not None:
                    self._to_check[self.passers[Member(ACTORS, settled)]] = None
            case ExecutorClosed():
                self.nodes.last_usage(node, message.usage)
                self._lose(node, "its executor was closed")
            case _:
                raise BadMessage(f"a run takes no {type(message).__name__}")

    def _unpacked(self, actor: ActorPlacement, message: AnyReport) -> AnyReport:
        """The report of an actor; its first report at a new place ends the need for its bundle."""
        if not (origin := self._bundles.origin(actor.number)):
            return message
        held = self._bundles.held(actor.number)
        self._bundles.drop(actor.number)
        match message:
            case ActorReport(told=Ready() as told) if held or told.start == "moved":
                start: StartKind = "state" if held else "moved"
                told = msgspec.structs.replace(told, start=start, moved=(origin, actor.node))
                return msgspec.structs.replace(message, told=told)
        return message

    def arrived(self, member: Member) -> None:
        """Rows of the actor arrived: reports that waited for them may count now."""
        self._to_check[self.passers[member]] = None

    def reports(self) -> Iterator[tuple[Member, FromMember | ExitReport]]:
        """Reports of members whose rows have arrived, oldest first per member."""
        yield from self.servers.reports()
        to_check, self._to_check = self._to_check, {}
        for actor in to_check:
            self._collect(actor)
            self._leave_if_idle(actor)
        while self._reports:
            member, report = self._reports.popleft()
            handled = self.passers[member].state is not State.NODE_LOST
            if not (isinstance(report, _NodeLost) and handled):
                yield member, report

    def _collect(self, actor: ActorPlacement) -> None:
        self._reports.extend((actor.member, report) for report in actor.counting())

    def node_of(self, member: Member) -> str:
        """The node where the actor lives, or is to live; "" for a server, which is on all."""
        return "" if member in self.servers else self.passers[member].node

    # -- moving --------------------------------------------------------------------------------

    def step(self) -> None:
        """Have actors enter their places once the replay buffer knows their terms."""
        late = self._bundles.give_up_late()
        self._to_check |= {self.passers[Member(ACTORS, actor)]: None for actor in late}
        for actor in self._departures.due():
            self._leave_if_idle(actor)
        # The processes of those that came without it need it, wherever they go.
        lives = (actor for actor in self.passers.values() if actor.has_process and actor.wanted)
        came = {actor.memory for actor in lives}
        self._memories.keep(self._bundles.all_without, came)
        if self._new_terms:
            actors, self._new_terms = [*self._new_terms], {}
            self._tell_terms(
                {actor.number: actor.term for actor in actors},
                {actor.number: actor.base for actor in actors},
                {actor.number: actor.node for actor in actors},
            )
        to_enter, self._to_enter = self._to_enter, {}
        for actor in to_enter:
            if actor.is_placed or not self.nodes.is_warm(actor.node):
                continue
            if not actor.may_enter:
                self._to_enter[actor] = None
                continue
            actor.enter()
            if actor.wanted is not None:
                self._launch(actor)
            elif actor.waiting:  # retired on its way here: it still carries out its waiting calls
                self._bring_up(actor, Prepare)
                actor.retire()

    def _leave_if_idle(self, actor: ActorPlacement) -> None:
        if not (actor.is_placed and actor.is_leaving and actor.is_idle):
            return
        lives = actor.has_process and actor.wanted is not None
        if lives and not self._bundles.is_settled(actor.number):
            image = self.nodes.images_fit(actor.node, actor.target)
            shares = image and (actor.memory or not actor.came)
            about = actor.node, actor.target, actor.memory
            spared = partial(self._memories.name, *about) if shares else str
            self._bundles.want(actor.number, actor.node, image=image, spared=spared)
            return
        node = actor.node
        goes_on = bool(self._bundles.origin(actor.number))
        actor.leave(by_bundle=goes_on)
        if actor.wanted is not None or actor.waiting:
            self._bookkeeper.restarting(actor.member)
        self._begin_term(actor, node, goes_on=goes_on)
        self.emptied |= not self._bound_for(node)

    def _lose(self, node: str, why: str) -> None:
        """A node, or its executor, is gone, and with it all rows that have not arrived."""
        self.nodes.end(node, why)
        self._bundles.lost(node)
        self._memories.lost(node)
        self.branches.lost(node, why)
        if not self._closing:
            self.servers.left(node)
        for actor in () if self._closing else self._bound_for(node):
            if actor.is_placed:
                self._collect(actor)
                self._bundles.drop(actor.number)
                if actor.lose():
                    death = _NodeLost(f"its place on {node} is gone: {why}", own=False)
                    self._reports.append((actor.member, death))
                self._begin_term(actor, node)

    def _begin_term(self, actor: ActorPlacement, left: str = "", *, goes_on: bool = False) -> None:
        base = self._bookkeeper.place_anew(
            actor.number, actor.term + 1, actor.committed, left, goes_on=goes_on
        )
        self._bundles.leave(actor.number)
        actor.begin_term(base)
        self._bind(actor, actor.awaits or actor.target)

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
    """An actor died with its node; void once the coordinator has ended it for another reason."""
