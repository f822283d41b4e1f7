"""How a message reaches its destination: direct call, local queue, remote ZeroMQ (Figure 10)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from artos.buffer.mailbox import Mailbox
from artos.protocol.invocations import ToMember, encode

if TYPE_CHECKING:  # a run on one machine needs no ZeroMQ, which takes time to import
    from artos.protocol.message import Message
    from artos.transport.messenger import Messenger

Sent_contra = TypeVar("Sent_contra", contravariant=True)
T = TypeVar("T")


class MessagePasser(Protocol[Sent_contra]):
    """Carries messages to one destination (paper Figure 10).

    A trigger passes on a ``Firing``; the coordinator turns it into an ``Invoke``.
    """

    def pass_message(self, message: Sent_contra) -> None:
        """Hand one message over, without waiting until it is acted on."""


class DirectPasser(Generic[T]):
    """Calls a function in this process."""

    def __init__(self, target: Callable[[T], None]) -> None:
        self._target = target

    def pass_message(self, message: T) -> None:
        """Call the target."""
        self._target(message)


def direct_passers(
    target: Callable[[int, T], None], members: Iterable[int]
) -> dict[int, DirectPasser[T]]:
    """A direct call for each member, with its number as the first argument."""
    return {member: DirectPasser(partial(target, member)) for member in members}


class QueuePasser:
    """Puts messages into a member's mailbox: a bounded queue in shared memory."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox

    def pass_message(self, message: ToMember) -> None:
        """Append the message and wake the member.

        Raises:
            MailboxFull: the member does not read.
        """
        self._mailbox.put(encode(message))


class ZmqPasser:
    """Sends messages to a peer on another node: ordered and once, over reconnects."""

    def __init__(self, messenger: Messenger, peer: str) -> None:
        self._messenger, self._peer = messenger, peer

    def pass_message(self, message: Message) -> None:
        """Queue the message, even if the peer cannot be reached at the moment.

        Raises:
            MailboxFull: the peer has taken nothing for too long.
        """
        self._messenger.send(self._peer, message)
