"""The actors of a run that live on worker nodes (paper §4.1, §4.3).

They are reached through the sites of the run, one per node. What a site reports of an actor counts
once the rows it speaks of are in the head's block, so nothing is learnt from before it is there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import msgspec

from artos.buffer.actor_block import ActorBlock
from artos.errors import BadMessage
from artos.protocol import wire
from artos.protocol.invocations import FromMember, Invoke, Ready
from artos.system.exit_report import Death
from artos.transport.messenger import Post
from head.run.remote.actor_placement import Posting
from head.run.remote.bundles import Parcels
from head.run.remote.node_usage import NodeBooks
from head.run.remote.placement_view import Whereabouts
from triggers.passers import ZmqPasser, direct_passers


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
    """The actors' half of ``Members``: an actor is told by way of its node's site.

    ``steering`` sends messages to the sites, ``terms`` tells the replay buffer the term, the base
    and the node of actors that change their place, ``silent`` knows for how long a node was not
    heard. One that moves goes on there as it was, by its image, if that can be had (``parcels``).
    """

    def __init__(
        self,
        blocks: Mapping[int, ActorBlock],
        epoch: int,
        steering: Post,
        terms: Callable[[dict[int, int], dict[int, int], dict[int, str]], None],
        silent: Callable[[str], float],
        parcels: Parcels,
    ) -> None:
        self._blocks, self._epoch, self._parcels = blocks, epoch, parcels
        self._steering, self._tell_terms = steering, terms
        self._postings = {actor: Posting(actor) for actor in blocks}
        self.passers = direct_passers(self.send, (p.member for p in self._postings.values()))
        self._bound_for: dict[str, dict[int, None]] = {}
        self._to_enter: dict[int, None] = {}
        self._looked_for: dict[int, None] = {}
        self._reports: deque[tuple[int, FromMember | Death]] = deque()
        self._raised: dict[int, None] = {}
        self._closing = False
        self.nodes = NodeBooks()
        self.whereabouts = Whereabouts(self._postings, self.nodes, silent, parcels.origin)

    def begin(self, books: Books) -> None:
        """The first term of every actor begins."""
        self._books = books
        for posting in self._postings.values():
            self._leave(posting)

    # -- Members ------------------------------------------------------------------

    def start(self, member: int) -> None:
        """Have its site start it, once it has one."""
        self._bring_up(member, wire.Start)

    def prepare(self, member: int) -> None:
        """Have its site prepare it, once it has one."""
        self._bring_up(member, wire.Prepare)

    def _bring_up(self, member: int, how: type[wire.Start | wire.Prepare]) -> None:
        posting = self._of(member)
        posting.wanted = how
        if how is wire.Start:
            posting.forget_calls()
        if posting.there:
            self._wake(posting)

    def send(self, member: int, invoke: Invoke) -> None:
        """Have it do something as soon as it is where it should be."""
        posting = self._of(member)
        call = wire.Call(member, invoke, self._books.published if invoke.bind else -1)
        if posting.takes_calls:
            self._give(posting, call)
        else:
            posting.waiting.append(call)

    def end(self, member: int) -> None:
        """Have its site kill what is left of it."""
        posting = self._of(member)
        posting.wanted, posting.bereft = None, False
        posting.forget_calls()
        self._parcels.drop(posting.actor)
        if posting.up:
            posting.up = False
            posting.passer.pass_message(wire.End(member))
        self._go_if_idle(posting)

    def retire(self, member: int) -> None:
        """Have its site put it away; it is not brought up at another place."""
        posting = self._of(member)
        posting.wanted = None
        self._parcels.drop(posting.actor)
        self._looked_for[posting.actor] = None  # it need not wait for its parcel any more
        if posting.up:
            posting.passer.pass_message(wire.Retire(member))

    # -- what happens --------------------------------------------------------------------------

    def placed(self, message: wire.Placed) -> None:
        """The head daemon says where actors are to live from now on."""
        for node in message.gone:
            self._lose(node, message.why or "it was not heard of any more")
        for posting in self._postings.values():
            self._move(posting, message.actors.get(posting.actor, ""))

    def heard(self, node: str, message: wire.Message) -> None:
        """A site reported.

        Raises:
            BadMessage: it makes no sense, and changed nothing.
        """
        match message:
            case wire.SiteUp(epoch=self._epoch, criu=criu):
                self._lose(node, "its site was started anew")
                self.nodes.begin(node, criu)
                self._to_enter |= self._bound_for.get(node, {})
            case wire.Restarted():
                self._lose(node, "its site is gone")
            case _ if node in self.nodes:
                self._reported(node, message)

    def _reported(self, node: str, message: wire.Message) -> None:
        match message:
            case wire.Said() | wire.Died():
                posting = self._postings.get(message.member - 1)
                if posting is None:
                    raise BadMessage(f"there is no member {message.member}")
                if posting.is_from_here(node, message):
                    posting.heard(self._unpacked(posting, message))
                    self._looked_for[posting.actor] = None
            case wire.SiteNews():
                self.nodes.news(node, message)
                for actor, written in message.written.items():
                    self._committed(node, actor, written)
            case wire.Packed() | wire.Bring() | wire.Piece() | wire.Unfit():
                if (settled := self._parcels.heard(node, message)) is not None:
                    self._looked_for[settled] = None
            case wire.SiteClosed():
                self.nodes.last_bill(node, message.bill)
                self._lose(node, "its site was closed")
            case _:
                raise BadMessage(f"{type(message).__name__} is nothing to tell a run")

    def _unpacked(self, posting: Posting, message: wire.Said | wire.Died) -> wire.Said | wire.Died:
        """What an actor says first at its new place: it needs its parcel no more."""
        if not (origin := self._parcels.origin(posting.actor)):
            return message
        self._parcels.drop(posting.actor)
        match message:
            case wire.Said(told=Ready(start="moved") as told):
                told = msgspec.structs.replace(told, moved=(origin, posting.node))
                return msgspec.structs.replace(message, told=told)
        return message

    def _committed(self, node: str, actor: int, written: int) -> None:
        posting = self._postings.get(actor)
        if posting is not None and posting.there and posting.node == node:
            posting.committed = max(posting.committed, written)

    def arrived(self, member: int) -> None:
        """Rows of the actor arrived: something it reported may count now."""
        self._looked_for[member - 1] = None

    def reports(self) -> Iterator[tuple[int, FromMember | Death]]:
        """What members reported and counts by now, oldest first per member."""
        looked_for, self._looked_for = self._looked_for, {}
        for actor in looked_for:
            self._collect(self._postings[actor])
            self._go_if_idle(self._postings[actor])
        while self._reports:
            member, report = self._reports.popleft()
            if not (isinstance(report, _Bereft) and not self._of(member).bereft):
                yield member, report

    def node_of(self, member: int) -> str:
        """Where the actor lives, or is to live."""
        return self._of(member).node

    def step(self) -> None:
        """Send those to their place whose term the replay buffer knows."""
        self._looked_for |= dict.fromkeys(self._parcels.give_up_late())
        self._spread_terms()
        to_enter, self._to_enter = self._to_enter, {}
        for actor in to_enter:
            posting = self._postings[actor]
            if posting.there or posting.node not in self.nodes:
                continue
            if posting.bereft or self._blocks[actor].incarnation != posting.term:
                self._to_enter[actor] = None
            else:
                self._enter(posting)

    def _spread_terms(self) -> None:
        if self._raised:
            raised, self._raised = [self._postings[actor] for actor in self._raised], {}
            self._tell_terms(
                {p.actor: p.term for p in raised}, {p.actor: p.base for p in raised},
                {p.actor: p.node for p in raised},
            )  # fmt: skip

    def close(self) -> None:
        """The run is over: all sites are closed; what becomes of the actors does not matter."""
        self._closing = True
        for node in self.nodes.open:
            self._steering.send(node, wire.CloseSite())

    # -- places --------------------------------------------------------------------------------

    def _of(self, member: int) -> Posting:
        return self._postings[member - 1]

    def _move(self, posting: Posting, node: str) -> None:
        if not posting.there:
            self._bind(posting, node)
        elif posting.node == node:
            posting.next = None
            self._parcels.stay(posting.actor)
            self._pass_on(posting)
        else:
            posting.next = node
            self._go_if_idle(posting)

    def _go_if_idle(self, posting: Posting) -> None:
        if posting.next is None or not posting.is_idle(self._arrived(posting)):
            return
        if self._takes_image(posting) and not self._parcels.is_settled(posting.actor):
            self._parcels.want(posting.actor, posting.node)
            return
        if posting.up:
            leaves = bool(self._parcels.origin(posting.actor))
            posting.passer.pass_message(wire.End(posting.member, leaves))
        if posting.wanted is not None:
            self._books.restarting(posting.member)
        self._leave(posting)

    def _takes_image(self, posting: Posting) -> bool:
        """Whether there may be an image of it that is of use where it goes."""
        fits = self.nodes.images_fit(posting.node, posting.next or "")
        return posting.up and posting.wanted is not None and fits

    def _lose(self, node: str, why: str) -> None:
        """A node, or its site, is gone; so is what its actors committed and nobody received."""
        self.nodes.end(node, why)
        self._parcels.lost(node)
        for actor in () if self._closing else tuple(self._bound_for.get(node, ())):
            posting = self._postings[actor]
            if not posting.there:
                continue
            self._collect(posting)
            self._parcels.drop(posting.actor)
            if posting.up:
                posting.bereft = True
                self._reports.append((posting.member, _Bereft(f"node {node} is gone: {why}")))
            # It stays there until it is placed elsewhere: a site may come back.
            posting.next = posting.next or node
            self._leave(posting)

    def _leave(self, posting: Posting) -> None:
        term, node = posting.term + 1, posting.node if posting.there else ""
        base = self._books.place_anew(posting.actor, term, posting.committed, node)
        going = posting.next or ""
        self._parcels.leave(posting.actor)
        posting.leave(term, base)
        self._bind(posting, going)

    def _bind(self, posting: Posting, node: str) -> None:
        self._bound_for.get(posting.node, {}).pop(posting.actor, None)
        posting.node, posting.passer = node, ZmqPasser(self._steering, node)
        self._bound_for.setdefault(node, {})[posting.actor] = None
        self._to_enter[posting.actor] = None
        self._raised[posting.actor] = None

    def _enter(self, posting: Posting) -> None:
        posting.there = True
        if posting.wanted is not None:
            self._wake(posting)
        self._pass_on(posting)

    # -- calls and answers ---------------------------------------------------------------------

    def _wake(self, posting: Posting) -> None:
        assert posting.wanted is not None
        posting.up, posting.asked = True, False
        parcel = self._parcels.send(posting.actor, posting.node)
        posting.passer.pass_message(
            posting.wanted(posting.member, posting.term, posting.base, parcel)
        )

    def _pass_on(self, posting: Posting) -> None:
        while posting.waiting:
            self._give(posting, posting.waiting.popleft())

    def _give(self, posting: Posting, call: wire.Call) -> None:
        if not posting.asked:
            # Its process has no weights yet, and its node may have older ones than it had before.
            posting.asked = True
            call = msgspec.structs.replace(call, version=self._books.published)
        posting.given.append(call)
        posting.passer.pass_message(call)

    def _arrived(self, posting: Posting) -> int:
        block = self._blocks[posting.actor]
        return block.written if block.incarnation == posting.term else posting.base

    def _collect(self, posting: Posting) -> None:
        for report in posting.counting(self._arrived(posting)):
            self._reports.append((posting.member, report))

    def __repr__(self) -> str:
        there = sum(posting.there for posting in self._postings.values())
        return f"<RemoteActors {there} of {len(self._postings)} at their place>"


class _Bereft(Death):
    """An actor went with its node."""

    def __init__(self, why: str) -> None:
        super().__init__(why, own=False)
