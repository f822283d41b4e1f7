"""The mailboxes between a node's supervisor and the members that run on it."""

from __future__ import annotations

from collections.abc import Iterator

from artos.buffer.board import Board
from artos.errors import BadMessage
from artos.protocol.invocations import FromMember, decode_from_member
from triggers.passers import QueuePasser


class Mailboxes:
    """The supervisor's end of every mailbox of a board.

    ``passers`` carry messages to the members; ``malformed`` counts dropped messages from them.
    """

    def __init__(self, board: Board) -> None:
        self._down = [board.down(member) for member in range(board.members)]
        self._up = [board.up(member) for member in range(board.members)]
        self.passers = {member: QueuePasser(box) for member, box in enumerate(self._down)}
        self.malformed = 0

    def take(self, member: int) -> Iterator[FromMember]:
        """What a member reported since the last time, oldest first."""
        while (data := self._up[member].take()) is not None:
            try:
                message = decode_from_member(data)
            except BadMessage:
                self.malformed += 1
            else:
                yield message

    def clear(self, member: int) -> None:
        """Discard the messages to a member that is gone."""
        self._down[member].clear()
