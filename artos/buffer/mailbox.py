"""How the processes of a node reach each other in shared memory: mailboxes and the board.

The board has a doorbell for the node, and for each member two mailboxes and a counter of changes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from artos.buffer.doorbell import SEMAPHORE_BYTES, Doorbell, ordered
from artos.buffer.layout import LINE, PAGE, WORD, align, words_of
from artos.buffer.segment import Segment
from artos.errors import MailboxFull

LEARNER = 0
"""Member number of the learner; actor k is member k + 1."""

_HEAD, _TAIL = 0, LINE // WORD
_WORDS_BYTES = 2 * LINE
_LENGTH_BYTES = 4
_LEARNER_MAIL = 256 << 10
_ACTOR_MAIL = 32 << 10
_GUESTS = 3


class Mailbox:
    """A bounded ring of messages with one writer and one reader, in mapped memory.

    Layout: head line (writer's), tail line (reader's), semaphore, then ``size`` bytes of records,
    each a 32-bit length and the message. A writer killed in the middle leaves nothing visible.
    """

    def __init__(
        self, memory: memoryview, offset: int, size: int, name: str, *, create: bool = False
    ) -> None:
        self.name, self.size = name, size
        self._words = words_of(memory, offset, _WORDS_BYTES // WORD)
        self.doorbell = Doorbell(memory, offset + _WORDS_BYTES, create=create)
        self._data = memoryview(memory)[offset + header_bytes() : offset + header_bytes() + size]

    def put(self, message: bytes) -> None:
        """Append a message and wake the reader.

        Raises:
            MailboxFull: there is no room; nothing was written.
        """
        record = len(message).to_bytes(_LENGTH_BYTES, "little") + message
        head = self._words[_HEAD]
        if head + len(record) - self._words[_TAIL] > self.size:
            raise MailboxFull(self.name, self.size)
        self._store(head % self.size, record)
        ordered()
        self._words[_HEAD] = head + len(record)
        self.doorbell.ring()

    def take(self) -> bytes | None:
        """The oldest message, or None if there is none. Does not touch the semaphore."""
        tail = self._words[_TAIL]
        if self._words[_HEAD] == tail:
            return None
        ordered()
        size = int.from_bytes(self._bytes(tail, _LENGTH_BYTES), "little")
        message = self._bytes(tail + _LENGTH_BYTES, size)
        self._words[_TAIL] = tail + _LENGTH_BYTES + size
        return message

    def get(self, seconds: float) -> bytes | None:
        """The oldest message, waiting at most ``seconds`` for one; None if none came."""
        message = self.take()
        while message is None and self.doorbell.wait(seconds):
            message = self.take()
        return message

    def clear(self) -> None:
        """Forget every message: only while the reader is gone."""
        self._words[_TAIL] = self._words[_HEAD]
        self.doorbell.drain()

    def _store(self, at: int, record: bytes) -> None:
        first = self.size - at
        if len(record) <= first:
            self._data[at : at + len(record)] = record
        else:
            self._data[at:], self._data[: len(record) - first] = record[:first], record[first:]

    def _bytes(self, at: int, count: int) -> bytes:
        at %= self.size
        first = self.size - at
        if count <= first:
            return bytes(self._data[at : at + count])
        return bytes(self._data[at : at + first]) + bytes(self._data[: count - first])


def header_bytes() -> int:
    """Bytes of a mailbox before its records."""
    return _WORDS_BYTES + SEMAPHORE_BYTES


def mailbox_bytes(size: int) -> int:
    """Bytes a mailbox with ``size`` bytes of records takes in the mapping."""
    return header_bytes() + size


def actor_member(actor: int) -> int:
    """Member number of an actor."""
    return actor + 1


def actor_of(member: int) -> int:
    """Number of the actor that a member is."""
    return member - 1


def template_member(members: int) -> int:
    """Member number of the template that actors are cloned from, beside ``members`` members."""
    return members


def control_member(members: int) -> int:
    """Member number of a process that changes a run from outside (``artos scale``)."""
    return members + 1


def evaluator_member(members: int) -> int:
    """Member number of the evaluator, beside ``members`` members."""
    return members + 2


class Board:
    """Where members tell the node that something changed, and get their invocations.

    A member raises its own counter and rings; the node compares all counters with their last values
    in one vectorised step, so the cost of an event does not grow with the number of members. Beside
    the learner and the actors there is room for three guests: the template, ``artos scale`` and the
    evaluator.
    """

    def __init__(self, segment: Segment, members: int, *, create: bool) -> None:
        self.members = members + _GUESTS
        self.doorbell = Doorbell(segment.memory, 0, create=create)
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
        """Tell the node that something of this member changed; called by the member."""
        self._counters[member] += 1
        self.doorbell.ring()  # also orders the counter before the ring

    def changed(self) -> list[int]:
        """Members that notified since the last call."""
        self.doorbell.drain()
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
    return 2 * mailbox_bytes(_LEARNER_MAIL) + actor_of(member) * 2 * mailbox_bytes(_ACTOR_MAIL)


def _mail_start(members: int) -> int:
    return align(SEMAPHORE_BYTES + members * WORD, PAGE)


def board_bytes(members: int) -> int:
    """Bytes of the file of a board with so many members, guests not counted."""
    everyone = members + _GUESTS
    return align(_mail_start(everyone) + _mail_offset(everyone), PAGE)
