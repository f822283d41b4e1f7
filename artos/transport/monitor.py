"""ZeroMQ's reports about the connections of one socket."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import count

import zmq

from artos.system.closing import Closing
from artos.transport.sockets import Socket

_REPORT = struct.Struct("=HI")  # pyzmq's own reader would import asyncio and ssl
_numbers = count()


class SocketMonitor(Closing):
    """Reports of these kinds (``zmq.EVENT_*``, combined) about the socket ``watched``.

    Poll ``socket``; call ``reports`` when it can be read. Use it in the thread of ``watched``;
    make it before ``watched`` connects or listens, and close it before ``watched``.
    """

    def __init__(self, watched: Socket, kinds: int) -> None:
        self._watched = watched
        name = f"inproc://monitor-{next(_numbers)}"
        watched.monitor(name, kinds)
        self.socket: Socket = watched.context.socket(zmq.PAIR)
        # The reporting thread must never wait: it serves all connections.
        self.socket.set(zmq.RCVHWM, 0)
        self.socket.connect(name)

    def reports(self) -> Iterator[tuple[int, int]]:
        """Reports since the last call, oldest first: the kind, and a number.

        The number is the descriptor of a connection, or an error, by zmq_socket_monitor(3).
        """
        while not self.socket.closed:
            try:
                report = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            yield _REPORT.unpack(report[0])

    def close(self) -> None:
        """Stop watching; connections stay."""
        if not self._watched.closed:
            self._watched.disable_monitor()
        self.socket.close(0)
