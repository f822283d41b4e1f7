"""The board of a node: one doorbell, and one mailbox pair and change counter per member."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from artos.buffer.doorbell import SEMAPHORE_BYTES, Doorbell, ordered
from artos.buffer.layout import PAGE, WORD, align
from artos.buffer.mailbox import Mailbox, mailbox_bytes
from artos.buffer.segment import Segment

LEARNER = 0
"""Member number of the learner; actor k is member k + 1."""
_LEARNER_MAIL = 256 << 10
_ACTOR_MAIL = 32 << 10


_GUESTS = 2


def actor_member(actor: int) -> int:
    """Member number of an actor."""
    return actor + 1


def template_member(members: int) -> int:
    """Member number of the template that actors are cloned from, beside ``members`` members."""
    return members


def control_member(members: int) -> int:
    """Member number of a process that changes a run from outside (``artos scale``)."""
    return members + 1


class Board:
    """Where members tell the node that something changed, and get their invocations.

    A member raises its own counter and rings; the node compares all counters with their last values
    in one vectorised step, so the cost of an event does not grow with the number of members. Beside
    the learner and the actors there is room for two guests: the template and ``artos scale``.
    """

    def __init__(self, segment: Segment, members: int, *, create: bool) -> None:
        self.members = members + _GUESTS
        self.bell = Doorbell(segment.memory, 0, create=create)
        self._counters = np.ndarray(self.members, np.int64, segment.memory, SEMAPHORE_BYTES)
        self._seen: NDArray[np.int64] = np.zeros(self.members, np.int64)
        self._segment, self._create = segment, create

    @classmethod
    def create(cls, path: Path, members: int) -> Board:
        """Create the board's file.

        Raises:
            ShmTooSmall: there is not enough shared memory.
        """
        board = cls(Segment.create(path, board_bytes(members)), members, create=True)
        for member in range(board.members):
            board.down(member)
            board.up(member)
        board._create = False
        return board

    @classmethod
    def attach(cls, path: Path, members: int) -> Board:
        """Map an existing board."""
        return cls(Segment.attach(path), members, create=False)

    def down(self, member: int) -> Mailbox:
        """The mailbox from the node to a member."""
        return self._mailbox(member, 0, f"to member {member}")

    def up(self, member: int) -> Mailbox:
        """The mailbox from a member to the node."""
        return self._mailbox(member, mailbox_bytes(_mail_size(member)), f"from member {member}")

    def _mailbox(self, member: int, within: int, name: str) -> Mailbox:
        size = _mail_size(member)
        offset = _mail_start(self.members) + _mail_offset(member) + within
        return Mailbox(self._segment.memory, offset, size, name, create=self._create)

    def notify(self, member: int) -> None:
        """Called by the member: something of mine changed."""
        self._counters[member] += 1
        self.bell.ring()  # also orders the counter before the ring

    def changed(self) -> list[int]:
        """Members that notified since the last call."""
        self.bell.drain()
        now = self._counters.copy()
        ordered()
        different: list[int] = (now != self._seen).nonzero()[0].tolist()
        self._seen = now
        return different


def _mail_size(member: int) -> int:
    return _LEARNER_MAIL if member == LEARNER else _ACTOR_MAIL


def _mail_offset(member: int) -> int:
    if member == LEARNER:
        return 0
    return 2 * mailbox_bytes(_LEARNER_MAIL) + (member - 1) * 2 * mailbox_bytes(_ACTOR_MAIL)


def _mail_start(members: int) -> int:
    return align(SEMAPHORE_BYTES + members * WORD, PAGE)


def board_bytes(members: int) -> int:
    """Bytes of the file of a board with so many members, guests not counted."""
    everyone = members + _GUESTS
    return align(_mail_start(everyone) + _mail_offset(everyone), PAGE)
