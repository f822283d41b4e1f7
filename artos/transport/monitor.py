"""What ZeroMQ reports of the connections of one socket."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import count

import zmq

from artos.system.closing import Closing
from artos.transport.sockets import Socket

_REPORT = struct.Struct("=HI")  # pyzmq reads it, too, and imports asyncio and ssl for that
_numbers = count()


class Monitor(Closing):
    """Reports of ``watched``, of these kinds (``zmq.EVENT_*``, combined).

    Poll ``socket``; call ``reports`` when something can be read. Belongs to the thread of
    ``watched``; begin before that connects or listens, and close before it is closed.
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
        """What happened since the last time, oldest first: kind, and the number that goes with it.

        That is the descriptor of a connection, or why there is none (see zmq_socket_monitor(3)).
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
