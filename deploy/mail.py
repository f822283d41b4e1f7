"""The mailboxes between a node's supervisor and the members that run on it."""

from __future__ import annotations

from collections.abc import Iterator

from artos.buffer.board import Board
from artos.errors import BadMessage
from artos.messages import FromMember, ToMember, decode_from_member, encode


class Mail:
    """The supervisor's end of every mailbox of a board; ``malformed`` counts what was dropped."""

    def __init__(self, board: Board) -> None:
        self._down = [board.down(member) for member in range(board.members)]
        self._up = [board.up(member) for member in range(board.members)]
        self.malformed = 0

    def put(self, member: int, message: ToMember) -> None:
        """Tell a member something.

        Raises:
            MailboxFull: it does not read.
        """
        self._down[member].put(encode(message))

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
        """Forget what a member that is gone was told."""
        self._down[member].clear()
