"""One connection of the agent's to a replay process, renewed when nothing is heard."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container

import zmq

from artos.clock import Clock
from artos.errors import BadMessage
from artos.faults import Faults, Seldom
from artos.protocol import codec
from artos.protocol.message import Message
from artos.system.closing import Closing
from artos.transport import sockets
from artos.transport.counters import Counters
from artos.transport.monitor import Monitor
from artos.transport.sockets import Socket

_log = logging.getLogger(__name__)
_SILENCE = 5.0  # seconds without an answer after which it is asked for again
_RENEW = 2  # times that it is asked on the same connection
_UP, _DOWN = zmq.EVENT_HANDSHAKE_SUCCEEDED, zmq.EVENT_DISCONNECTED

Hear = Callable[[Message], None]


class Link(Closing):
    """A socket that knows when it is connected (again).

    ``greet`` is called then, and again when what it asked for was not answered for some seconds: it
    sends what brings both ends together. ``hear`` gets every message; ``counters`` counts the
    ``bad`` ones.
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
        self._monitor = Monitor(self.socket, _UP | _DOWN)
        self._heard, self._up = self._clock.now(), False

    @property
    def sockets(self) -> tuple[Socket, Socket]:
        """What to poll for reading; other ones after it was renewed."""
        return self.socket, self._monitor.socket

    def send(self, frame: bytes) -> bool:
        """Send a message now, one that is large without a copy; False if there is no connection."""
        return sockets.push(self.socket, [frame], copy=False)

    def turn(self, ready: Container[object], *, waits: bool) -> None:
        """Read from those sockets that are ``ready``.

        ``waits``: something was asked, so silence means something.
        """
        for kind, _ in self._monitor.reports() if self._monitor.socket in ready else ():
            self._connected(kind == _UP)
        while self.socket in ready and (frame := self._next()) is not None:
            self._heard, self._asked = self._clock.now(), 0
            self._take(frame)
        if self._up and not waits:
            self._heard = self._clock.now()
        elif self._clock.now() - self._heard > _SILENCE:
            self._ask_again()

    def _connected(self, up: bool) -> None:
        self._up, self._heard = up, self._clock.now()
        if up:
            self.socket.get(zmq.EVENTS)  # makes it notice its new connection before it sends
            self._greet()

    def _next(self) -> zmq.Frame | None:
        try:
            return self.socket.recv(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return None

    def _take(self, frame: zmq.Frame) -> None:
        with self._faults.contained("what came from the head"):
            try:
                self._hear(codec.decode(frame.buffer))
            except BadMessage as error:
                self._counters.add("bad")
                self._seldom.warning("from the head: %s", error)

    def _ask_again(self) -> None:
        self._heard, self._asked = self._clock.now(), self._asked + 1
        if self._asked % (_RENEW + 1) == 0:
            self.close()  # a peer that refused our key once is not tried again on this one
            self._open()
        else:
            self._greet()

    def close(self) -> None:
        """Hang up at once."""
        self._monitor.close()
        self.socket.close(0)
