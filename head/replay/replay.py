"""A replay process: the only writer of its actors' blocks on the head node (paper §4.1)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import zmq
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from artos.buffer.actor_block import ActorBlock
from artos.buffer.mailbox import Board, actor_member
from artos.buffer.model_block import ModelBlock, ObjectRegion, Slot
from artos.clock import SystemClock
from artos.errors import BadMessage, DeadlineExceeded
from artos.faults import Faults
from artos.plan import Plan
from artos.protocol import codec
from artos.protocol.data import Chunk, Greet, Pull, ReplayUp, Terms, Weights
from artos.protocol.message import Message, Refusal
from artos.protocol.orders import REPLAY_COUNTS, ReplayOrders
from artos.system.closing import Closing
from artos.system.exit_report import START_SECONDS
from artos.transport import sockets
from artos.transport.authorizer import Authorizer
from artos.transport.bfloat16 import BFLOAT16, narrow
from artos.transport.chunk import PIECE, Rings, parts_of, unload
from artos.transport.counters import Counters
from artos.transport.doorkeeper import Doorkeeper
from artos.transport.keys import Keys
from artos.transport.roles import foreign
from artos.transport.sidecar import ControlPipe
from head.replay.receiver import Receiver, Standing

PARAMS = "params"
_PIECE = 128 << 10  # parameters; while one piece is on its way the next is made
MODEL = "model_param"
_THREADS = 4
_PAUSE = 1  # ms without news after which agents are told what came before it
_UNREAD = 256
"""Messages of one connection that wait: beyond them TCP makes it wait, whatever it may send."""
_UNSENT = 20_000
"""Messages to one node: a version of 10 GB. Who asks for more than it reads gets no more."""
_BURST = 8 << 20  # bytes taken in before anybody is answered


class WeightStore:
    """The newest version as messages ready to be sent. ``reader`` is its pin in the model block.

    The slot is pinned only while it is copied: sending may take long, and a learner needs slots.
    With ``dtype`` bfloat16, float32 parameters travel rounded.
    """

    def __init__(self, region: ObjectRegion, reader: int, dtype: str) -> None:
        self._region, self._reader, self._dtype = region, reader, dtype
        self._version = -1
        self._messages: list[bytes] = []

    @property
    def version(self) -> int:
        """The newest version there is; -1 before the first."""
        return self._region.version

    def newest(self) -> Iterator[bytes]:
        """A message for every piece of the newest version; there must be one."""
        if self._version == self.version:
            yield from self._messages
            return
        self._messages = []
        slot = self._region.pin(self._reader)
        try:
            for message in self._made(slot):
                self._messages.append(message)
                yield message
        finally:
            self._region.unpin(self._reader)
        self._version = slot.version

    def _made(self, slot: Slot) -> Iterator[bytes]:
        params = slot.arrays[PARAMS].reshape(-1)
        short = self._dtype == BFLOAT16 and params.dtype == np.float32
        dtype, size = (BFLOAT16, 2) if short else (params.dtype.name, params.itemsize)
        for start in range(0, params.size, _PIECE):
            part = params[start : start + _PIECE]
            values: NDArray[Any] = narrow(part) if short else part
            content = values.data.cast("B")
            total, checksum = size * params.size, xxh3_64_intdigest(content)
            yield codec.encode(Weights(slot.version, dtype, checksum, size * start, total, content))


def serve(orders: str, control_pipe: int) -> int:
    """Be the replay process that ``orders`` (JSON) describe; returns the exit status."""
    given = msgspec.json.decode(orders, type=ReplayOrders)
    with ControlPipe.held(control_pipe) as line, Replay(given, line) as replay:
        replay.begin()
        while not line.cut:
            replay.turn()
    return 0


class Replay(Closing):
    """Sockets, blocks and board of a replay process; what is taken is the receiver's decision."""

    def __init__(self, orders: ReplayOrders, control_pipe: ControlPipe) -> None:
        site = orders.site
        plan = msgspec.json.decode(Path(orders.plan_file).read_bytes(), type=Plan)
        self._orders, self._control_pipe, self._clock = orders, control_pipe, SystemClock()
        self._board = Board.attach(site.board_path, site.members)
        self._rings = {
            actor: Rings(ActorBlock.attach(site.block_path(actor)))
            for actor in range(orders.number, plan.actors, orders.count)
        }
        region = ModelBlock.attach(site.model_path)[MODEL]
        self._weights = WeightStore(region, orders.number, orders.weights_dtype)
        self._counters = Counters(orders.counters_path, REPLAY_COUNTS)
        self._faults = Faults(counted=partial(self._counters.add, "faults"))
        self._row_bytes = next(iter(self._rings.values())).row_bytes
        self._receiver = Receiver(orders.epoch, self._row_bytes, self._standing, self._counters.add)
        self._owed: set[int] = set()
        self._unpaid = 0
        self._pulls: dict[str, int] = {}
        self._routes: dict[str, bytes] = {}
        self._keys = Keys.load(Path(orders.keys)) if orders.keys else None
        self._authorizer = Authorizer(self._keys.register if self._keys else None)
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
        first = self._control_pipe.get(START_SECONDS)
        if not isinstance(first, Terms):
            raise DeadlineExceeded("the terms of the actors", START_SECONDS)
        self._begin_terms(first)
        if self._keys is not None:
            self._gate = sockets.ZapHandler(self._context, self._keys)
            self._watch(self._gate.socket, self._gate.answer)
        largest = _largest(self._row_bytes)
        self._socket = sockets.serve(
            self._context, self._orders.endpoint, self._keys, largest, _UNREAD, _UNSENT
        )
        if self._keys is not None:
            self._doorkeeper = Doorkeeper(self._socket, largest)
            self._watch(self._doorkeeper.socket, self._doorkeeper.look)
        self._watch(self._socket, self._receive)
        self._watch(self._control_pipe.fileno(), self._obey)
        self._control_pipe.send(ReplayUp(sockets.bound(self._socket)))
        for actor in self._rings:  # whoever died here may have taken rows and told nobody
            self._board.notify(actor_member(actor))

    _gate: sockets.ZapHandler | None = None
    _doorkeeper: Doorkeeper | None = None
    _socket: sockets.Socket

    def _watch(self, what: sockets.Socket | int, does: Callable[[], None]) -> None:
        self._poller.register(what, zmq.POLLIN)
        self._does[what] = does

    def turn(self) -> None:
        """Sleep until something comes, and see to it; before a longer sleep pay what is owed."""
        ready = self._poller.poll(_PAUSE if self._owed else None)
        self._authorizer.refresh()
        for what, _ in ready:
            self._does[what]()
        if not ready:
            self._pay()

    def close(self) -> None:
        """Hang up at once."""
        self._context.destroy(linger=0)

    # -- the run process -----------------------------------------------------------------------

    def _obey(self) -> None:
        for message in self._control_pipe.take():
            with self._faults.contained(type(message).__name__):
                if isinstance(message, Terms):
                    self._begin_terms(message)
                    self._control_pipe.send(message)
                else:
                    self._look()

    def _begin_terms(self, message: Terms) -> None:
        self._receiver.settle(message.nodes)
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
        route, size = frames[0].bytes, sum(map(len, frames[1:]))
        key = str(frames[0].get("User-Id")) if self._keys else ""
        if self._doorkeeper is not None:
            self._doorkeeper.heard(frames[0], route)
        if not self._authorizer.accepts(key):
            self._hang_up(route)
            return size
        self._counters.add("bytes", size)
        with self._faults.contained(f"what {route!r} sent", partial(self._refuse, route)):
            try:
                message = codec.decode(_only(frames[1:]).buffer)
                self._answer(self._sender(route, key, message), message)
            except BadMessage as error:
                self._counters.add("bad")
                self._refuse(route, error.why)
        return size

    def _refuse(self, route: bytes, why: str) -> None:
        sockets.push(self._socket, [route, codec.encode(Refusal(why))])

    def _sender(self, route: bytes, key: str, message: Message) -> str:
        """Who says this.

        Raises:
            BadMessage: it is not who it says, or may not say that.
        """
        who = sockets.name_of(route)
        if self._authorizer.claim(who, key, self._clock.now()):
            for known in (self._routes, self._pulls):
                known.pop(who, None)
        self._authorizer.permit(who, message)
        # With one of these a connection begins; what an old one still brings comes in its shadow.
        if isinstance(message, Greet | Pull):
            self._routes[who] = route
        return who

    def _answer(self, who: str, message: Message) -> None:
        match message:
            case Chunk():
                self._take(who, message, parts_of(message.content, message.sizes))
            case Greet():
                if why := foreign(who, message.node):
                    raise BadMessage(why)
                for news in self._receiver.greet(who, message):
                    self._send(who, news)
            case Pull():
                self._pulls[who] = message.have
                self._hand_out([who])
            case _:
                raise BadMessage(f"{type(message).__name__} is nothing to tell a replay process")

    def _take(self, who: str, chunk: Chunk, parts: Sequence[memoryview]) -> None:
        rows = self._receiver.admit(who, chunk, chunk.sizes)
        self._counters.add("chunks")
        if rows:
            unload(self._rings[chunk.actor], chunk, rows, parts)
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

    def _send(self, who: str, message: Message) -> None:
        # An agent that is not there greets when it is back, and is told everything then.
        if self._may_hear(who):
            sockets.push(self._socket, [self._routes[who], codec.encode(message)])

    def _may_hear(self, who: str) -> bool:
        """Whether it is there and its key is (still) good."""
        if who in self._routes and not self._authorizer.knows(who):
            self._hang_up(self._routes.pop(who))
        return who in self._routes

    def _hang_up(self, route: bytes) -> None:
        if self._doorkeeper is not None:
            self._doorkeeper.hang_up(route)

    def _hand_out(self, waiting: Sequence[str]) -> None:
        """Send newer weights to those whose pull asks for them, each piece to all of them."""
        newest = self._weights.version
        waited = [who for who in waiting if self._pulls[who] < newest]
        for who in waited:
            del self._pulls[who]
        routes = [self._routes[who] for who in waited if self._may_hear(who)]
        for message in self._weights.newest() if routes else ():
            for route in routes:
                if sockets.push(self._socket, [route, message], copy=False):
                    self._counters.add("weights", len(message))


def _only(frames: Sequence[zmq.Frame]) -> zmq.Frame:
    if len(frames) != 1:
        raise BadMessage(f"{len(frames)} frames where one is a message")
    return frames[0]


def _largest(row_bytes: Mapping[str, int]) -> int:
    """Bytes of the largest frame that may come: a piece of rows, or one row of all keys."""
    return sockets.LARGEST + max(0, sum(row_bytes.values()) - PIECE)
