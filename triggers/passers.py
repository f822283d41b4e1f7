"""How a firing reaches its destination: direct call, local queue, remote ZeroMQ (checklist A17)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec
import zmq

from artos.errors import BadMessage, DeadlineExceeded
from artos.unreadable import UNREADABLE
from triggers.base import Firing


class MessagePasser(Protocol):
    """Carries firings to where they are acted on (paper Figure 10)."""

    def pass_message(self, firing: Firing) -> None:
        """Hand one firing over; must not wait for it to be acted on."""


class DirectPasser:
    """Calls a function in this process."""

    def __init__(self, target: Callable[[Firing], None]) -> None:
        self._target = target

    def pass_message(self, firing: Firing) -> None:
        """Call the target."""
        self._target(firing)


class Queue(Protocol):
    """Anything that takes encoded messages: ``artos.buffer.mailbox.Mailbox`` across processes."""

    def put(self, message: bytes) -> None:
        """Append one message."""


class QueuePasser:
    """Puts firings into a bounded local queue, e.g. a mailbox in shared memory."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def pass_message(self, firing: Firing) -> None:
        """Append the firing.

        Raises:
            MailboxFull: the reader does not keep up.
        """
        self._queue.put(encode(firing))


class ZmqPasser:
    """Sends firings over a ZeroMQ socket to another node."""

    def __init__(self, socket: zmq.Socket[bytes], seconds: float = 5.0) -> None:
        self._socket, self._seconds = socket, seconds
        socket.setsockopt(zmq.SNDTIMEO, int(seconds * 1000))

    def pass_message(self, firing: Firing) -> None:
        """Send the firing.

        Raises:
            DeadlineExceeded: the peer took nothing for too long.
        """
        try:
            self._socket.send(encode(firing))
        except zmq.Again:
            raise DeadlineExceeded(f"room to send firing {firing.number}", self._seconds) from None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Firing)


def encode(firing: Firing) -> bytes:
    """A firing as bytes."""
    return _encoder.encode(firing)


def decode(data: bytes) -> Firing:
    """What ``encode`` made.

    Raises:
        BadMessage: the bytes are no firing; says which field is wrong.
    """
    try:
        firing: Firing = _decoder.decode(data)
    except UNREADABLE as error:
        raise BadMessage(str(error)) from error
    return firing
