"""Passers that leave the process: to a member's mailbox, and over ZeroMQ to another node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from artos.buffer.mailbox import Board, Mailbox
from artos.errors import BadMessage
from artos.protocol.invocations import FromMember, Invoke, ToMember, decode_from_member, encode
from artos.specs.members import Member

if TYPE_CHECKING:  # a run on one machine needs no ZeroMQ, which takes time to import
    from artos.protocol.message import Message
    from artos.transport.messenger import Messenger
    from triggers.engine import MessagePasser


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


class ToAll:
    """Passes each message to several: replicas of a learner make its calls together."""

    def __init__(self, passers: Sequence[MessagePasser[Invoke]]) -> None:
        self._passers = passers

    def pass_message(self, message: Invoke) -> None:
        """Pass it to each, in order; raises what they raise."""
        for passer in self._passers:
            passer.pass_message(message)


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


class Mailboxes:
    """The supervisor's end of every mailbox of a board.

    ``passers`` carry messages to the members; ``malformed`` counts dropped messages from them.
    """

    def __init__(self, board: Board) -> None:
        self._down = {member: board.down(member) for member in board.members}
        self._up = {member: board.up(member) for member in board.members}
        self.passers = {member: QueuePasser(box) for member, box in self._down.items()}
        self.malformed = 0

    def take(self, member: Member) -> Iterator[FromMember]:
        """What a member reported since the last time, oldest first."""
        while (data := self._up[member].take()) is not None:
            try:
                message = decode_from_member(data)
            except BadMessage:
                self.malformed += 1
            else:
                yield message

    def clear(self, member: Member) -> None:
        """Discard the messages to a member that is gone."""
        self._down[member].clear()
