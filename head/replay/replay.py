"""A replay process: the only writer of its actors' blocks on the head node (paper §4.2)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
import zmq

from artos.buffer.actor_block import ActorBlock
from artos.buffer.board import Board, actor_member
from artos.buffer.model_block import ModelBlock
from artos.closing import Closing
from artos.errors import BadMessage, DeadlineExceeded
from artos.faults import Faults
from artos.plan import Plan, Site
from artos.runtime.death import START_SECONDS
from artos.transport import sockets, wire
from artos.transport.chunk import Rings, unload
from artos.transport.keys import Keys
from artos.transport.leash import Leash
from artos.transport.tally import Tally
from head.replay.receiver import Receiver, Standing
from head.replay.weights import WeightStore

MODEL = "model_param"
COUNTS = ("bytes", "weights", "chunks", "stale", "gap", "repeated", "bad", "faults")
"""What a replay process counts. ``bytes`` came in, ``weights`` counts bytes that went out.

``bad`` messages were refused, ``faults`` survived.
"""
_THREADS = 4
_PAUSE = 1  # ms without news after which agents are told what came before it
_UNSENT = 20_000
"""Messages to one node: a version of 10 GB. Who asks for more than it reads gets no more."""
_BURST = 8 << 20  # bytes taken in before anybody is answered


class ReplayOrders(msgspec.Struct, frozen=True):
    """What a replay process must know: it serves actors ``number``, ``number + count``, ...

    ``keys`` is the folder of the cluster's keys, "" for none.
    """

    site: Site
    plan_file: str
    endpoint: str
    keys: str
    number: int
    count: int
    epoch: int
    weights_dtype: str

    @property
    def tally_path(self) -> Path:
        """File of its counters."""
        return Path(self.site.folder) / f"replay-{self.number}"


def serve(orders: str, leash: int) -> int:
    """Be the replay process that ``orders`` (JSON) describe; returns the exit status."""
    given = msgspec.json.decode(orders, type=ReplayOrders)
    with Leash.held(leash) as line, Replay(given, line) as replay:
        replay.begin()
        while not line.cut:
            replay.turn()
    return 0


class Replay(Closing):
    """Sockets, blocks and board of a replay process; what is taken is the receiver's decision."""

    def __init__(self, orders: ReplayOrders, leash: Leash) -> None:
        site = orders.site
        plan = msgspec.json.decode(Path(orders.plan_file).read_bytes(), type=Plan)
        self._orders, self._leash = orders, leash
        self._board = Board.attach(site.board_path, site.members)
        self._rings = {
            actor: Rings(ActorBlock.attach(site.block_path(actor)))
            for actor in range(orders.number, plan.actors, orders.count)
        }
        region = ModelBlock.attach(site.model_path)[MODEL]
        self._weights = WeightStore(region, orders.number, orders.weights_dtype)
        self._tally = Tally(orders.tally_path, COUNTS)
        self._faults = Faults(counted=partial(self._tally.add, "faults"))
        row_bytes = next(iter(self._rings.values())).row_bytes
        self._receiver = Receiver(orders.epoch, row_bytes, self._standing, self._tally.add)
        self._owed: set[int] = set()
        self._unpaid = 0
        self._pulls: dict[bytes, int] = {}
        self._peers: dict[bytes, str] = {}
        self._keys = Keys.load(Path(orders.keys)) if orders.keys else None
        # Each encrypts for some of the nodes.
        threads = min(_THREADS, len(os.sched_getaffinity(0)))
        self._context: sockets.Context = zmq.Context(threads)
        self._poller = zmq.Poller()
        self._does: dict[object, Callable[[], None]] = {}

    def _standing(self, actor: int) -> Standing | None:
        if actor not in self._rings:
            return None
        block = self._rings[actor].block
        written = {name: header.written for name, header in block.headers.items()}
        return Standing(block.incarnation, written, block.room())

    # -- the loop ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Put the terms in force, listen, and say so.

        Raises:
            DeadlineExceeded: nobody said which terms.
        """
        first = self._leash.get(START_SECONDS)
        if not isinstance(first, wire.Terms):
            raise DeadlineExceeded("the terms of the actors", START_SECONDS)
        self._begin_terms(first)
        if self._keys is not None:
            self._gate = sockets.Gate(self._context, self._keys)
            self._watch(self._gate.socket, self._gate.answer)
        self._socket = sockets.serve(
            self._context, self._orders.endpoint, self._keys, queue=0, unsent=_UNSENT
        )
        self._watch(self._socket, self._receive)
        self._watch(self._leash.fileno(), self._obey)
        self._leash.send(wire.Listening(sockets.bound(self._socket)))
        for actor in self._rings:  # whoever died here may have taken rows and told nobody
            self._board.notify(actor_member(actor))

    _gate: sockets.Gate | None = None
    _socket: sockets.Socket

    def _watch(self, what: sockets.Socket | int, does: Callable[[], None]) -> None:
        self._poller.register(what, zmq.POLLIN)
        self._does[what] = does

    def turn(self) -> None:
        """Sleep until something comes, and see to it; before a longer sleep pay what is owed."""
        ready = self._poller.poll(_PAUSE if self._owed else None)
        for what, _ in ready:
            self._does[what]()
        if not ready:
            self._pay()

    def close(self) -> None:
        """Hang up at once."""
        self._context.destroy(linger=0)

    # -- the run process -----------------------------------------------------------------------

    def _obey(self) -> None:
        for message in self._leash.take():
            with self._faults.contained(type(message).__name__):
                if isinstance(message, wire.Terms):
                    self._begin_terms(message)
                    self._leash.send(message)
                else:
                    self._look()

    def _begin_terms(self, message: wire.Terms) -> None:
        for actor, term in message.terms.items():
            if actor in self._rings:
                self._rings[actor].block.begin_term(term, message.bases[actor])

    def _look(self) -> None:
        """Rows were released or a version published: tell who waits for that."""
        self._owed.update(self._receiver.roomier())
        self._pay()
        self._hand_out([*self._pulls])

    # -- agents --------------------------------------------------------------------------------

    def _receive(self) -> None:
        taken = 0
        while taken < _BURST:
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                break
            taken += self._hear(frames)
        if self._unpaid >= self._receiver.credit // 4:
            self._pay()

    def _hear(self, frames: Sequence[zmq.Frame]) -> int:
        """Take in one message; returns its bytes."""
        who, size = frames[0].bytes, sum(map(len, frames[1:]))
        if self._keys is not None:
            self._peers[who] = str(frames[0].get("User-Id"))
        if not self._is_friend(who):
            return size
        self._tally.add("bytes", size)
        with self._faults.contained(f"what {who!r} sent", partial(self._refuse, who)):
            try:
                first = frames[1].buffer if len(frames) > 1 else b""
                self._answer(who, wire.decode(first), frames[2:])
            except BadMessage as error:
                self._tally.add("bad")
                self._refuse(who, error.why)
        return size

    def _refuse(self, who: bytes, why: str) -> None:
        self._send(who, wire.Refusal(why))

    def _is_friend(self, who: bytes) -> bool:
        """Whether the peer's key is one of ours now: it may have been revoked."""
        return self._keys is None or self._keys.accepts(self._peers[who])

    def _answer(self, who: bytes, message: wire.Message, frames: Sequence[zmq.Frame]) -> None:
        match message:
            case wire.Chunk():
                self._take(who, message, frames)
            case wire.Greet():
                for news in self._receiver.greet(who, message):
                    self._send(who, news)
            case wire.Pull():
                self._pulls[who] = message.have
                self._hand_out([who])
            case _:
                raise BadMessage(f"{type(message).__name__} is nothing to tell a replay process")

    def _take(self, who: bytes, chunk: wire.Chunk, frames: Sequence[zmq.Frame]) -> None:
        rows = self._receiver.admit(who, chunk, [len(frame) for frame in frames])
        self._tally.add("chunks")
        if rows:
            unload(self._rings[chunk.actor], chunk, rows, [frame.buffer for frame in frames])
            self._owed.add(chunk.actor)
            self._unpaid += sum(chunk.raw)
            if chunk.ends:
                self._board.notify(actor_member(chunk.actor))
                self._pay()
        elif (news := self._receiver.outdated(chunk)) is not None:
            self._send(who, news)

    def _pay(self) -> None:
        """Tell agents what arrived and how much room there is."""
        owed, self._owed, self._unpaid = self._owed, set(), 0
        for actor in owed:
            if (who := self._receiver.home(actor)) is not None:
                self._send(who, self._receiver.arrivals(actor))

    def _send(self, who: bytes, message: wire.Message) -> None:
        # An agent that is not there greets when it is back, and is told everything then.
        if self._is_friend(who):
            sockets.push(self._socket, [who, wire.encode(message)])

    def _hand_out(self, waiting: Sequence[bytes]) -> None:
        """Send newer weights to those whose pull asks for them, each piece to all of them."""
        newest = self._weights.version
        waited = [who for who in waiting if self._pulls[who] < newest]
        for who in waited:
            del self._pulls[who]
        friends = [who for who in waited if self._is_friend(who)]
        for message in self._weights.newest() if friends else ():
            for who in friends:
                if sockets.push(self._socket, [who, message], copy=False):
                    self._tally.add("weights", len(message))
