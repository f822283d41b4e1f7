"""The socket of a post: a line that listens to many peers, or one that calls the head."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import suppress

import zmq

from artos.errors import Refused
from artos.system.closing import Closing
from artos.transport import sockets
from artos.transport.channel import PIECE
from artos.transport.doorkeeper import Doorkeeper
from artos.transport.handshakes import REPORTS, Handshakes, LinkFault
from artos.transport.keys import Keys
from artos.transport.monitor import Monitor
from artos.transport.peers import Sender

HEAD = "head"
"""The caller's name for the other end."""

_LARGEST = 2 * PIECE  # bytes of a frame: a piece, its envelope and what encryption adds
_LAST_WORDS = 200  # ms to write what is queued when all is over
_RENEW = 5.0  # seconds of silence after which a new connection is tried

Heard = tuple[Sender, list[bytes]]
"""A peer and its frames."""


class Line(Closing):
    """A socket that one thread uses, and that another can call it away from (``wake``)."""

    def __init__(self) -> None:
        self._context: sockets.Context = zmq.Context()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            self._socket = self._open()
        except BaseException:
            self.close()
            raise
        self.endpoint = sockets.bound(self._socket)

    def wake(self) -> None:
        """End the wait; may be called from any thread."""
        os.eventfd_write(self._wake, 1)

    def wait(self, seconds: float, to_send: bool) -> None:
        """Until there is something to read, room to send (if wanted), a ``wake``, or time is up."""
        poller = zmq.Poller()
        poller.register(self._wake, zmq.POLLIN)
        self._await(poller, int(seconds * 1000) + 1, to_send)
        with suppress(BlockingIOError):
            os.eventfd_read(self._wake)

    def heard(self, most: int) -> Iterator[Heard]:
        """What has come in, at most so many messages."""
        for _ in range(0 if self._socket.closed else most):
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            yield self._opened(frames)

    @property
    def link_fault(self) -> LinkFault | None:
        """Why the other end cannot be reached, if that is known."""
        return None

    @abstractmethod
    def send(self, route: bytes, message: bytes) -> bool:
        """Send now or not at all; returns whether it was sent."""

    def hang_up(self, route: bytes) -> None:
        """Break the connection that leads there; nothing else is promised."""

    @abstractmethod
    def tend(self, silent: float, usurped: bool) -> None:
        """To be called now and then: seconds without a word, and whether our name is taken."""

    def close(self) -> None:
        """Write what is queued, within moments, and let go of everything."""
        self._context.destroy(_LAST_WORDS)
        os.close(self._wake)

    @abstractmethod
    def _open(self) -> sockets.Socket:
        """The socket."""

    @abstractmethod
    def _await(self, poller: zmq.Poller, milliseconds: int, to_send: bool) -> None:
        """Wait for the socket, too."""

    @abstractmethod
    def _opened(self, frames: list[zmq.Frame]) -> Heard:
        """The sender's route."""


class Listening(Line):
    """Serves any number of peers, each reached by its own route."""

    def __init__(self, endpoint: str, keys: Keys | None) -> None:
        self._endpoint, self._keys = endpoint, keys
        super().__init__()

    def send(self, route: bytes, message: bytes) -> bool:
        """Send to that peer; False also if it is not connected."""
        return sockets.push(self._socket, [route, message])

    def tend(self, silent: float, usurped: bool) -> None:
        """Nothing to do: the calling end renews the connection."""

    def _open(self) -> sockets.Socket:
        self._gate = sockets.ZapHandler(self._context, self._keys) if self._keys else None
        socket = sockets.serve(self._context, self._endpoint, self._keys, _LARGEST)
        self._doorkeeper = Doorkeeper(socket, _LARGEST) if self._keys else None
        return socket

    def hang_up(self, route: bytes) -> None:
        """Break the connection that leads there."""
        if self._doorkeeper:
            self._doorkeeper.hang_up(route)

    def _await(self, poller: zmq.Poller, milliseconds: int, to_send: bool) -> None:
        poller.register(self._socket, zmq.POLLIN)
        if self._gate is None or self._doorkeeper is None:
            poller.poll(milliseconds)
            return
        for each in (self._gate, self._doorkeeper):
            poller.register(each.socket, zmq.POLLIN)
        ready = dict(poller.poll(milliseconds))
        if self._doorkeeper.socket in ready:
            self._doorkeeper.look()
        if self._gate.socket in ready:
            self._gate.answer()

    def _opened(self, frames: list[zmq.Frame]) -> Heard:
        route = frames[0].bytes
        key = str(frames[0].get("User-Id")) if self._keys else ""
        if self._doorkeeper:
            self._doorkeeper.heard(frames[0], route)
        sender = Sender(sockets.name_of(route), key, route)
        return sender, [frame.bytes for frame in frames[1:]]


class Calling(Line):
    """Talks to the head, in frames of up to ``largest`` bytes."""

    def __init__(self, endpoint: str, keys: Keys | None, me: str, largest: int = _LARGEST) -> None:
        self._endpoint, self._keys, self._me, self._largest = endpoint, keys, me, largest
        self._patience = _RENEW
        self._handshakes = Handshakes()
        super().__init__()

    def send(self, route: bytes, message: bytes) -> bool:
        """Send to the head; False also while there is no connection."""
        return not self._socket.closed and sockets.push(self._socket, [message])

    @property
    def link_fault(self) -> LinkFault | None:
        """Why it is not connected, if that is known."""
        return self._handshakes.fault

    def tend(self, silent: float, usurped: bool) -> None:
        """Connect anew: ZeroMQ itself never retries a peer that once refused our key."""
        self._handshakes.waited(silent)
        if usurped:
            self._monitor.close()
            self._socket.close()
        elif silent < _RENEW:
            self._patience = _RENEW
        elif silent >= self._patience:
            self._patience = silent + _RENEW
            self._renew()

    def _renew(self) -> None:
        with suppress(Refused):
            monitor, old, self._socket = self._monitor, self._socket, self._open()
            monitor.close()
            old.close()

    def _open(self) -> sockets.Socket:
        return sockets.connect(
            self._context, self._endpoint, self._keys, self._me, self._largest, watch=self._watch
        )

    def _watch(self, socket: sockets.Socket) -> None:
        self._monitor = Monitor(socket, REPORTS)

    def _await(self, poller: zmq.Poller, milliseconds: int, to_send: bool) -> None:
        if not self._socket.closed:
            poller.register(self._socket, zmq.POLLIN | (zmq.POLLOUT if to_send else 0))
            poller.register(self._monitor.socket, zmq.POLLIN)
        poller.poll(milliseconds)
        for report in self._monitor.reports():
            self._handshakes.happened(*report)

    def _opened(self, frames: list[zmq.Frame]) -> Heard:
        return Sender(HEAD), [frame.bytes for frame in frames]
