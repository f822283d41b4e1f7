"""A pipe between a process and its child: messages either way; it breaks when one of them dies."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator

from artos.clock import Deadline
from artos.errors import BadMessage
from artos.protocol import codec
from artos.protocol.message import Message
from artos.system.closing import Closing

_LARGEST = 1 << 20  # bytes of a message


class ControlPipe(Closing):
    """One end of a pair of connected sockets; never blocks but in ``get``.

    The kernel closes the other end with its process, so ``cut`` tells at once that it is gone.
    Malformed messages are dropped.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        end.setblocking(False)
        self.cut = False

    @classmethod
    def pair(cls) -> tuple[ControlPipe, socket.socket]:
        """An end to keep and one for a new process; close the latter once the process has it."""
        mine, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(mine), other

    @classmethod
    def held(cls, descriptor: int) -> ControlPipe:
        """The end that this process inherited."""
        end = socket.socket(fileno=descriptor)
        end.set_inheritable(False)
        return cls(end)

    def fileno(self) -> int:
        """For polling: readable when there is a message or the other end is gone."""
        return self._end.fileno()

    def send(self, message: Message) -> bool:
        """Send; False if the other end is gone or has not read for long."""
        try:
            self._end.send(codec.encode(message))
        except (BlockingIOError, OSError):
            return False
        return True

    def take(self) -> Iterator[Message]:
        """The messages that have come; afterwards ``cut`` says whether the other end is gone."""
        while not self.cut:
            try:
                data = self._end.recv(_LARGEST)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.cut = True
                return
            try:
                message = codec.decode(data)
            except BadMessage:
                continue
            yield message

    def get(self, seconds: float) -> Message | None:
        """The next message; None if none came in time or the other end is gone."""
        deadline = Deadline(seconds)
        while True:
            for message in self.take():
                return message
            if self.cut or not select.select([self._end], [], [], deadline.left)[0]:
                return None

    def close(self) -> None:
        """Close this end; twice is fine."""
        self._end.close()
        self.cut = True
