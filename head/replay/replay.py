"""A replay process: the only writer of the actors' blocks on the head node (paper §4.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import zmq
from msgspec.structs import replace
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from artos.buffer.actor_block import ActorBlock
from artos.buffer.mailbox import Board
from artos.buffer.model_block import ModelBlock
from artos.buffer.object_region import ObjectRegion, ObjectSlot
from artos.buffer.past_versions import pinned
from artos.clock import SystemClock
from artos.errors import BadMessage, DeadlineExceeded
from artos.protocol import codec
from artos.protocol.data import (
    AnswersPiece,
    AnswersTaken,
    Chunk,
    Greet,
    Pull,
    ReplayUp,
    Terms,
    Weights,
)
from artos.protocol.message import Message, Refusal
from artos.runs.orders import REPLAY_COUNTS, ReplayOrders
from artos.runs.plan import Plan
from artos.specs.keys import MODEL_PARAM, PARAMS
from artos.specs.members import ACTORS, Member
from artos.system.closing import Closing
from artos.system.exit_report import START_SECONDS
from artos.system.faults import Faults
from artos.system.regular_file import contents
from artos.system.usable_cpus import usable_cpus
from artos.transport import sockets
from artos.transport.authorizer import Authorizer
from artos.transport.bfloat16 import BFLOAT16, narrow
from artos.transport.chunk import PIECE, Rings, parts_of, unload
from artos.transport.counters import Counters
from artos.transport.doorkeeper import Doorkeeper
from artos.transport.keys import Keys
from artos.transport.roles import foreign
from artos.transport.sidecar import ControlPipe
from head.replay.answers import KeptAnswers
from head.replay.receiver import ActorState, Receiver

_PIECE = 128 << 10  # numbers; while one piece is under way the next is made
_READER = 0
"""Actors, whose numbers these are, read in the memory of their own nodes."""
_THREADS = 4
_PAUSE = 1  # ms without messages after which agents are told what was taken
_UNREAD = 256
"""Unread messages of one connection, after which TCP makes the sender wait, despite its credit."""
_UNSENT = 20_000
"""Most unsent messages to one node: a version of 10 GB. A node that does not read gets no more."""
_BURST = 8 << 20  # bytes received before any agent is answered


def _keeps_none(version: int, messages: Iterator[bytes]) -> None:
    """The default of ``WeightStore.newest``: past versions are not asked for."""


class WeightStore:
    """The newest version as messages ready to be sent.

    The slot is pinned only while it is copied: sending may take long, and the learner needs slots.
    With ``dtype`` bfloat16, float32 parameters are rounded before they are sent.
    """

    def __init__(self, region: ObjectRegion, dtype: str) -> None:
        self._region, self._dtype = region, dtype
        self._version = -1
        self._messages: list[bytes] = []

    @property
    def version(self) -> int:
        """The newest version; -1 before the first."""
        return self._region.version

    def newest(self, keep: Callable[[int, Iterator[bytes]], None] = _keeps_none) -> Iterator[bytes]:
        """A message for every piece of the newest version's arrays; a version must exist.

        ``keep`` is given the messages of each of its past versions before that.
        """
        if self._version == self.version and not self._region.spec.history:
            yield from self._messages
            return
        slot, *pasts = pinned(self._region, _READER)
        try:
            for past in reversed(pasts):
                keep(past.version, self._all_pieces(past, kept=True))
            if self._version != slot.version:
                self._version, self._messages = -1, []
                with_it = tuple(past.version for past in pasts)
                for message in self._all_pieces(slot, past=with_it):
                    self._messages.append(message)
                    yield message
                self._version = slot.version
                return
        finally:
            self._region.unpin(_READER)
        yield from self._messages

    def _all_pieces(self, slot: ObjectSlot, **facts: Any) -> Iterator[bytes]:
        for array in self._region.spec.public:
            for piece in self._pieces(slot, array.name):
                yield codec.encode(replace(piece, **facts))

    def _pieces(self, slot: ObjectSlot, name: str) -> Iterator[Weights]:
        array = slot.arrays[name].reshape(-1)
        short = self._dtype == BFLOAT16 and name == PARAMS and array.dtype == np.float32
        dtype, size = (BFLOAT16, 2) if short else (array.dtype.name, array.itemsize)
        for start in range(0, array.size, _PIECE):
            part = array[start : start + _PIECE]
            values: NDArray[Any] = narrow(part) if short else part
            content = values.data.cast("B")
            total, checksum = size * array.size, xxh3_64_intdigest(content)
            yield Weights(slot.version, dtype, checksum, size * start, total, content, name)


def serve(orders: str, control_pipe: int) -> int:
    """Run the replay process of these ``orders`` (JSON); returns the exit status."""
    decoded = msgspec.json.decode(orders, type=ReplayOrders)
    with ControlPipe.held(control_pipe) as pipe, Replay(decoded, pipe) as replay:
        replay.begin()
        while not pipe.cut:
            replay.turn()
    return 0


class Replay(Closing):
    """Sockets, blocks and board of a replay process; ``Receiver`` decides which rows are taken."""

    def __init__(self, orders: ReplayOrders, control_pipe: ControlPipe) -> None:
        site = orders.site
        plan = msgspec.json.decode(contents(Path(orders.plan_file)), type=Plan)
        self._orders, self._control_pipe, self._clock = orders, control_pipe, SystemClock()
        self._board = Board.attach(site.board_path, site.members)
        self._rings = {
            actor: Rings(ActorBlock.attach(site.block_path(actor))) for actor in range(plan.actors)
        }
        self._weights = {
            learner: WeightStore(
                ModelBlock.attach(site.model_of(learner))[MODEL_PARAM], orders.weights_dtype
            )
            for learner in plan.sent_learners
        }
        self._counters = Counters(orders.counters_path, REPLAY_COUNTS)
        self._faults = Faults(counted=partial(self._counters.add, "faults"))
        self._row_bytes = {key.name: key.row_bytes(plan.envs) for key in plan.block(0).all_keys}
        self._answers = KeptAnswers(plan, site)
        self._receiver = Receiver(
            orders.epoch, self._row_bytes, self._state_of, self._counters.add, self._answers.has
        )
        self._unreported: set[int] = set()
        self._unreported_bytes = 0
        self._answered: set[tuple[str, int, str]] = set()
        """The processes of servers of which something was taken that is not reported."""
        self._pulls: dict[str, Pull] = {}
        self._routes: dict[str, bytes] = {}
        self._keys = Keys.load(Path(orders.keys)) if orders.keys else None
        self._authorizer = Authorizer(self._keys.register if self._keys else None)
        # Each thread encrypts for some of the nodes.
        threads = min(_THREADS, len(usable_cpus()))
        self._context: sockets.Context = zmq.Context(threads)
        self._poller = zmq.Poller()
        self._handlers: dict[object, Callable[[], None]] = {}

    def _state_of(self, actor: int) -> ActorState | None:
        if actor not in self._rings:
            return None
        block = self._rings[actor].block
        written = {name: header.written for name, header in block.headers.items()}
        return ActorState(block.incarnation, written, block.room())

    # -- the loop ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Put the terms in force, listen, and send ``ReplayUp``.

        Raises:
            DeadlineExceeded: the run process sent no terms.
        """
        first = self._control_pipe.get(START_SECONDS)
        if not isinstance(first, Terms):
            raise DeadlineExceeded("the terms of the actors", START_SECONDS)
        self._begin_terms(first)
        if self._keys is not None:
            self._zap = sockets.ZapHandler(self._context, self._keys)
            self._watch(self._zap.socket, self._zap.answer)
        # The largest frame allowed: a piece of rows, or one row of all keys.
        largest = sockets.LARGEST + max(0, sum(self._row_bytes.values()) - PIECE)
        self._socket = sockets.serve(
            self._context, self._orders.endpoint, self._keys, largest, _UNREAD, _UNSENT
        )
        if self._keys is not None:
            self._doorkeeper = Doorkeeper(self._socket, largest)
            self._watch(self._doorkeeper.socket, self._doorkeeper.read_reports)
        self._watch(self._socket, self._receive)
        self._watch(self._control_pipe.fileno(), self._handle_orders)
        self._control_pipe.send(ReplayUp(sockets.bound(self._socket)))
        for actor in self._rings:  # a predecessor may have died before it notified the board
            self._board.notify(Member(ACTORS, actor))

    _zap: sockets.ZapHandler | None = None
    _doorkeeper: Doorkeeper | None = None
    _socket: sockets.Socket

    def _watch(self, what: sockets.Socket | int, handler: Callable[[], None]) -> None:
        self._poller.register(what, zmq.POLLIN)
        self._handlers[what] = handler

    def turn(self) -> None:
        """Wait for events and handle them; report rows taken before a longer wait."""
        ready = self._poller.poll(_PAUSE if self._unreported or self._answered else None)
        self._authorizer.refresh()
        for what, _ in ready:
            self._handlers[what]()
        if not ready:
            self._report_taken()

    def close(self) -> None:
        """Close all connections at once."""
        self._context.destroy(linger=0)
        self._answers.close()

    # -- the run process -----------------------------------------------------------------------

    def _handle_orders(self) -> None:
        for message in self._control_pipe.take():
            with self._faults.contained(type(message).__name__):
                if isinstance(message, Terms):
                    self._begin_terms(message)
                    self._control_pipe.send(message)
                else:
                    # Rows were released or a version published: tell agents that wait for either.
                    self._unreported.update(self._receiver.with_more_room())
                    self._report_taken()
                    self._send_weights([*self._pulls])

    def _begin_terms(self, message: Terms) -> None:
        self._receiver.set_nodes(message.nodes)
        for actor, term in message.terms.items():
            self._rings[actor].block.begin_term(term, message.bases[actor])

    # -- agents --------------------------------------------------------------------------------

    def _receive(self) -> None:
        taken = 0
        while taken < _BURST:
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                break
            route, size = frames[0].bytes, sum(map(len, frames[1:]))
            taken += size
            key = str(frames[0].get("User-Id")) if self._keys else ""
            if self._doorkeeper is not None:
                self._doorkeeper.heard(frames[0], route)
            if not self._authorizer.accepts(key):
                self._hang_up(route)
                continue
            self._counters.add("bytes", size)
            with self._faults.contained(f"a message from {route!r}", partial(self._refuse, route)):
                try:
                    self._handle(route, key, frames[1:])
                except BadMessage as error:
                    self._counters.add("bad")
                    self._refuse(route, error.why)
        if self._unreported_bytes >= self._receiver.credit // 4:
            self._report_taken()

    def _refuse(self, route: bytes, why: str) -> None:
        sockets.push(self._socket, [route, codec.encode(Refusal(why))])

    def _handle(self, route: bytes, key: str, frames: Sequence[zmq.Frame]) -> None:
        """Handle a message that came over ``route`` with a ``key`` ("" without keys).

        Raises:
            BadMessage: it is malformed, or its sender may not use this name or send this message.
        """
        if len(frames) != 1:
            raise BadMessage(f"a message of {len(frames)} frames")
        message, who = codec.decode(frames[0].buffer), sockets.name_of(route)
        if self._authorizer.claim(who, key, self._clock.now()):
            self._routes.pop(who, None)
            self._pulls.pop(who, None)
        self._authorizer.permit(who, message)
        # A new connection begins with one of these; frames of an old one must not change the route.
        if isinstance(message, Greet | Pull):
            self._routes[who] = route
        match message:
            case Chunk():
                self._take_rows(who, message)
            case Greet():
                if why := foreign(who, message.node):
                    raise BadMessage(why)
                told = self._receiver.greet(who, message)
                for known in (*self._answers.greet(who, message), *told):
                    self._send(who, known)
            case AnswersPiece():
                self._take_answers(who, message)
            case Pull():
                self._pull(who, message)
            case _:
                raise BadMessage(f"a replay process takes no {type(message).__name__}")

    def _take_rows(self, who: str, chunk: Chunk) -> None:
        parts = parts_of(chunk.content, chunk.sizes)
        rows = self._receiver.admit(who, chunk, chunk.sizes)
        self._counters.add("chunks")
        if rows:
            unload(self._rings[chunk.actor], chunk, rows, parts)
            self._unreported.add(chunk.actor)
            self._unreported_bytes += sum(chunk.raw)
            if chunk.ends:
                self._board.notify(Member(ACTORS, chunk.actor))
                self._report_taken()
        elif (answer := self._receiver.outdated(chunk)) is not None:
            self._send(who, answer)

    def _take_answers(self, who: str, piece: AnswersPiece) -> None:
        greeted = self._receiver.has_greeted(who)
        if refused := self._answers.take(who, piece) if greeted else "stale":
            self._counters.add(refused)
            return
        self._answered.add((who, piece.server, piece.process))
        self._unreported_bytes += len(piece.content)

    def _pull(self, who: str, message: Pull) -> None:
        if message.learner not in self._weights:
            raise BadMessage(f"actors have no weights of a learner {message.learner!r}")
        self._pulls[who] = message
        self._send_weights([who])

    def _report_taken(self) -> None:
        """Tell agents what was taken, and how much room there is."""
        answered, self._answered = self._answered, set()
        for node, server, process in answered:
            self._send(node, AnswersTaken(process, self._answers.taken(node, server, process)))
        unreported, self._unreported, self._unreported_bytes = self._unreported, set(), 0
        for actor in unreported:
            if (who := self._receiver.node_of(actor)) is not None:
                self._send(who, self._receiver.rows_taken(actor))

    def _send(self, who: str, message: Message) -> None:
        # An agent that is not connected greets when it is back, and is told everything then.
        if self._is_reachable(who):
            sockets.push(self._socket, [self._routes[who], codec.encode(message)])

    def _is_reachable(self, who: str) -> bool:
        """Whether this agent has connected and its key is (still) valid."""
        if who in self._routes and not self._authorizer.knows(who):
            self._hang_up(self._routes.pop(who))
        return who in self._routes

    def _hang_up(self, route: bytes) -> None:
        if self._doorkeeper is not None:
            self._doorkeeper.hang_up(route)

    def _send_weights(self, waiting: Sequence[str]) -> None:
        """Send weights to the agents whose pull asks for newer ones, piece by piece to all."""
        of = {who: self._pulls[who].learner for who in waiting}
        for learner, store in self._weights.items():
            self._send_store(store, [who for who in waiting if of[who] == learner])

    def _send_store(self, store: WeightStore, waiting: Sequence[str]) -> None:
        newest = store.version
        waited = [who for who in waiting if self._pulls[who].have < newest]
        pulls = {who: self._pulls.pop(who) for who in waited}
        routes = {self._routes[who]: pull for who, pull in pulls.items() if self._is_reachable(who)}

        def keep(version: int, messages: Iterator[bytes]) -> None:
            lacking = [r for r, p in routes.items() if version not in (p.have, *p.past)]
            for message in messages if lacking else ():
                self._push_weights(lacking, message)

        for message in store.newest(keep) if routes else ():
            self._push_weights(routes, message)

    def _push_weights(self, routes: Iterable[bytes], message: bytes) -> None:
        for route in routes:
            if sockets.push(self._socket, [route, message], copy=False):
                self._counters.add("weights", len(message))
