"""Ships experience: sends the pieces a sender chooses over a link to the replay process."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Container
from typing import NamedTuple

import lz4.block
import zmq

from artos.clock import Clock
from artos.errors import BadMessage
from artos.protocol import codec
from artos.protocol.data import Answered, AnswersTaken, Greet, RowsTaken
from artos.protocol.message import Message, Refusal
from artos.system.closing import Closing
from artos.system.faults import Faults, Seldom
from artos.transport import sockets
from artos.transport.chunk import Bytes, Rings, load
from artos.transport.counters import Counters
from artos.transport.monitor import SocketMonitor
from artos.transport.sockets import Socket
from workers.agent.answers import AnswersSent
from workers.agent.sender import Packing, Piece, Sender

_log = logging.getLogger(__name__)
_SILENCE = 5.0  # seconds without an answer until the question is repeated
_RENEW = 2  # repetitions on the same connection before a new one is opened
_UP, _DOWN = zmq.EVENT_HANDSHAKE_SUCCEEDED, zmq.EVENT_DISCONNECTED

Hear = Callable[[Message], None]


class Link(Closing):
    """A socket that knows when it is connected (again).

    ``greet`` is called on every connection, and again if there was no answer for some seconds.
    ``hear`` gets every message; ``counters`` counts the ``bad`` ones.
    """

    def __init__(
        self,
        opens: Callable[[], Socket],
        clock: Clock,
        greet: Callable[[], None],
        hear: Hear,
        counters: Counters,
        faults: Faults,
    ) -> None:
        self._opens, self._clock, self._greet, self._hear = opens, clock, greet, hear
        self._counters, self._faults, self._seldom = counters, faults, Seldom(_log)
        self._asked = 0
        self._open()

    def _open(self) -> None:
        self.socket = self._opens()
        self._monitor = SocketMonitor(self.socket, _UP | _DOWN)
        self._heard, self._up = self._clock.now(), False

    @property
    def sockets(self) -> tuple[Socket, Socket]:
        """The sockets to poll for reading; they change when the link is renewed."""
        return self.socket, self._monitor.socket

    def send(self, frame: bytes) -> bool:
        """Send a message now, without copying large ones; False if there is no connection."""
        return sockets.push(self.socket, [frame], copy=False)

    def turn(self, ready: Container[object], *, waits: bool) -> None:
        """Read from those of its sockets that are ``ready``.

        ``waits``: an answer is outstanding, so after some silence it is taken for lost.
        """
        for kind, _ in self._monitor.reports() if self._monitor.socket in ready else ():
            self._up, self._heard = kind == _UP, self._clock.now()
            if self._up:
                # Makes ZeroMQ notice the new connection before it sends.
                self.socket.get(zmq.EVENTS)
                self._greet()
        while self.socket in ready:
            try:
                frame = self.socket.recv(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                break
            self._heard, self._asked = self._clock.now(), 0
            with self._faults.contained("a message from the head"):
                try:
                    self._hear(codec.decode(frame.buffer))
                except BadMessage as error:
                    self._counters.add("bad")
                    self._seldom.warning("from the head: %s", error)
        if self._up and not waits:
            self._heard = self._clock.now()
        elif self._clock.now() - self._heard > _SILENCE:
            self._heard, self._asked = self._clock.now(), self._asked + 1
            if self._asked % (_RENEW + 1) == 0:
                self.close()  # a socket does not reconnect to a peer that has refused our key
                self._open()
            else:
                self._greet()

    def close(self) -> None:
        """Close the connection at once."""
        self._monitor.close()
        self.socket.close(0)


class _OnItsWay(NamedTuple):
    """A piece, its bytes as sent, and when it was sent."""

    piece: Piece
    size: int
    sent: float


class Shipping(Closing):
    """Ships the rows of the actors that live here.

    ``rings`` returns an actor's rows; ``arrived`` is called with an actor, a stage, and how many
    of its rows have arrived. What servers have ``answered`` until then goes ahead of rows.
    """

    def __init__(
        self,
        opens: Callable[[], Socket],
        hello: Callable[[dict[int, int], int, Answered], Greet],
        sender: Sender,
        answered: AnswersSent,
        packing: Packing,
        rings: Callable[[int], Rings],
        arrived: Callable[[int, int, int], None],
        clock: Clock,
        counters: Counters,
        faults: Faults,
    ) -> None:
        self._sender, self._answered = sender, answered
        self._packing, self._rings, self._arrived = packing, rings, arrived
        self._hello, self._clock, self._counters = hello, clock, counters
        self._seldom = Seldom(_log)
        self._way: deque[_OnItsWay] = deque()
        self._landed = 0.0
        self.link = Link(opens, clock, self.greet, self._handle, counters, faults)

    def greet(self) -> None:
        """Introduce this node, and send again all rows not known to have arrived."""
        self._way.clear()
        terms = self._sender.greet()
        hello = self._hello(terms, self._sender.number, self._answered.greet())
        if self.link.send(codec.encode(hello)):
            self._counters.add("greetings")

    def turn(self, ready: Container[object]) -> None:
        """Read the messages that came, and send the pieces that may be sent."""
        self.link.turn(ready, waits=self._sender.waits or self._answered.waits)
        if self._answered.look():
            self.greet()
        while (told := self._answered.next_piece()) is not None:
            if not self.link.send(frame := codec.encode(told)):
                return  # as below
            self._counters.add("bytes", len(frame))
        if self._answered.behind:
            return
        while (piece := self._sender.next_piece()) is not None:
            rings = self._rings(piece.actor)
            chunk, parts = load(
                rings, piece.term, piece.stream.keys, piece.rows, self._pack, ends=piece.ends,
                answered=self._answered.sent,
            )  # fmt: skip
            frame = codec.encode(chunk, *parts)
            if not self.link.send(frame):
                return  # not connected; the next connection begins with a greeting
            self._way.append(_OnItsWay(piece, len(frame), self._clock.now()))
            self._counters.add("bytes", len(frame))
            self._counters.add("raw", piece.size)
            self._counters.add("chunks")

    def _pack(self, key: str, rows: Bytes) -> bytes | None:
        now = self._clock.now()
        if not self._packing.wants(key, rows.nbytes, now):
            return None
        began = time.thread_time()
        packed: bytes = lz4.block.compress(rows, store_size=False)
        seconds = time.thread_time() - began
        worth = self._packing.packed(key, rows.nbytes, len(packed), seconds, now)
        return packed if worth else None

    # -- what comes back -----------------------------------------------------------------------

    def _handle(self, message: Message) -> None:
        match message:
            case RowsTaken():
                moved = self._sender.take_report(message)
                # How long these arrivals took, not counting the pieces before them.
                now, began, size = self._clock.now(), 0.0, 0
                while self._way and _has_arrived(self._way[0].piece, message):
                    gone = self._way.popleft()
                    began = began or max(self._landed, gone.sent)
                    size += gone.size
                if size:
                    self._packing.crossed(size, now - began)
                    self._landed = now
                for stage, rows in moved.items():
                    self._arrived(message.actor, stage, rows)
            case AnswersTaken():
                self._answered.take_report(message, self._sender.number)
            case Refusal():
                self._counters.add("refused")
                self._seldom.warning("refused: %s", message.why)
            case _:
                raise BadMessage(f"a transfer agent does not accept {type(message).__name__}")

    def close(self) -> None:
        """Close the connection at once."""
        self.link.close()
        self._answered.close()


def _has_arrived(piece: Piece, news: RowsTaken) -> bool:
    if piece.actor != news.actor:
        return False
    return all(news.written.get(name, 0) >= piece.rows.stop for name in piece.stream.keys)
