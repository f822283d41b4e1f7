"""Closes connections: those of strangers if there are too many, and those of revoked keys.

ZeroMQ limits neither the number of connections nor, except by the largest frame of the socket, what
a peer may send before its handshake is over. So strangers can fill one such frame per connection.
"""

from __future__ import annotations

import os
import resource
import socket
from contextlib import suppress
from typing import Any

import zmq

from artos.system.closing import Closing
from artos.transport.connections import Connections
from artos.transport.monitor import SocketMonitor
from artos.transport.sockets import Socket

_FOR_STRANGERS = 128 << 20  # bytes that all strangers together may fill
_OVERHEAD = 64 << 10  # bytes that a connection takes without any frame
_NEVER_FEWER = 8  # connections of strangers
_FOR_OTHERS = 256  # descriptors that are kept for other uses
_REPORTS = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED


class Doorkeeper(Closing):
    """Watches the connections of ``listener``, a TCP socket with frames of up to ``largest`` bytes.

    Poll ``socket``; call ``read_reports`` when it is readable. Use it in ``listener``'s thread.
    """

    def __init__(self, listener: Socket, largest: int) -> None:
        strangers = max(_NEVER_FEWER, _FOR_STRANGERS // (largest + _OVERHEAD))
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        most = allowed - min(_FOR_OTHERS, allowed // 2)
        self._connections = Connections(min(strangers, most), most)
        self._addresses: dict[int, Any] = {}
        self._monitor = SocketMonitor(listener, _REPORTS)
        self.socket = self._monitor.socket

    def __repr__(self) -> str:
        return f"<Doorkeeper connections={len(self._connections)}>"

    def read_reports(self) -> None:
        """Take note of new and closed connections, and close those that are too many."""
        for event, descriptor in self._monitor.reports():
            if event == zmq.EVENT_DISCONNECTED:
                self._connections.closed(descriptor)
                self._addresses.pop(descriptor, None)
                continue
            self._addresses[descriptor] = _address_of(descriptor)
            if (too_many := self._connections.opened(descriptor)) is not None:
                self._break(too_many)

    def heard(self, frame: zmq.Frame, route: bytes) -> None:
        """A frame came from the peer at this route."""
        descriptor = int(frame.get(zmq.SRCFD))
        if not self._connections.leads(descriptor, route):
            self.read_reports()
            self._connections.heard(descriptor, route)

    def has_ended(self, route: bytes) -> bool:
        """Whether the peer's connection was closed, and it has not connected again."""
        return self._connections.has_ended(route)

    def hang_up(self, route: bytes) -> None:
        """Close the connection of this route; messages on their way there are lost."""
        self.read_reports()
        if (descriptor := self._connections.of(route)) is not None:
            self._break(descriptor)

    def close(self) -> None:
        """Stop watching; connections stay."""
        self._monitor.close()

    def _break(self, descriptor: int) -> None:
        """Shut the connection down below ZeroMQ, which notices and cleans up."""
        self._connections.closed(descriptor)
        address = self._addresses.pop(descriptor, None)
        with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as copy:
            if copy.getpeername() == address:  # else the descriptor was reused
                copy.shutdown(socket.SHUT_RDWR)


def _address_of(descriptor: int) -> Any:
    """The peer's address of a connection; None if the connection is closed."""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as copy:
        return copy.getpeername()
    return None
