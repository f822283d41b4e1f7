"""How the processes of a node reach each other in shared memory: mailboxes and the board.

The board has a doorbell for the node, and for each member two mailboxes and a counter of changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from artos.buffer.doorbell import SEMAPHORE_BYTES, Doorbell, ordered
from artos.buffer.layout import LINE, PAGE, WORD, align, words_of
from artos.buffer.segment import Segment
from artos.errors import MailboxFull
from artos.specs.members import Member, Members, Role

_HEAD, _TAIL = 0, LINE // WORD
_WORDS_BYTES = 2 * LINE
_LENGTH_BYTES = 4


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

    def has_room(self, message: bytes) -> bool:
        """Whether a message fits now, or never does."""
        size = _LENGTH_BYTES + len(message)
        return size > self.size or size <= self.size - (self._words[_HEAD] - self._words[_TAIL])

    def put(self, message: bytes) -> None:
        """Append a message and wake the reader.

        Raises:
            MailboxFull: there is no room; nothing was written.
        """
        record = len(message).to_bytes(_LENGTH_BYTES, "little") + message
        head = self._words[_HEAD]
        if head + len(record) - self._words[_TAIL] > self.size:
            raise MailboxFull(self.name, self.size)
        at = head % self.size
        first = self.size - at
        if len(record) <= first:
            self._data[at : at + len(record)] = record
        else:
            self._data[at:], self._data[: len(record) - first] = record[:first], record[first:]
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
        ordered()  # it was read before its room is given back
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


class Board:
    """Where members tell the node that something changed, and get their invocations.

    A member raises its own counter and rings; the node compares all counters with their last values
    in one vectorised step, so the cost of an event does not grow with the number of members.
    """

    def __init__(self, segment: Segment, members: Members, *, create: bool) -> None:
        self.members = members
        self.doorbell = Doorbell(segment.memory, 0, create=create)
        self._counters = np.ndarray(len(members), np.int64, segment.memory, SEMAPHORE_BYTES)
        self._seen: NDArray[np.int64] = np.zeros(len(members), np.int64)
        self._segment, self._create = segment, create
        self._mail = {role.name: (start, role.mail) for start, role in _mail_starts(members)}

    @classmethod
    def create(cls, path: Path, members: Members) -> Board:
        """Create the board's file.

        Raises:
            ShmTooSmall: there is not enough shared memory.
        """
        board = cls(Segment.create(path, board_bytes(members)), members, create=True)
        for member in members:
            board.down(member)
            board.up(member)
        board._create = False
        return board

    @classmethod
    def attach(cls, path: Path, members: Members) -> Board:
        """Map an existing board."""
        return cls(Segment.attach(path), members, create=False)

    def down(self, member: Member) -> Mailbox:
        """The mailbox from the node to a member."""
        return self._mailbox(member, 0, f"to {member}")

    def up(self, member: Member) -> Mailbox:
        """The mailbox from a member to the node."""
        return self._mailbox(member, 1, f"from {member}")

    def _mailbox(self, member: Member, before: int, name: str) -> Mailbox:
        start, size = self._mail[member.role]
        offset = start + (2 * member.rank + before) * mailbox_bytes(size)
        return Mailbox(self._segment.memory, offset, size, name, create=self._create)

    def notify(self, member: Member) -> None:
        """Tell the node that something of this member changed; called by the member."""
        self._counters[self.members.number(member)] += 1
        self.doorbell.ring()  # also orders the counter before the ring

    def changed(self) -> list[Member]:
        """Members that notified since the last call."""
        self.doorbell.drain()
        now = self._counters.copy()
        ordered()
        different = (now != self._seen).nonzero()[0].tolist()
        self._seen = now
        return [self.members.member(number) for number in different]


def _mail_starts(members: Members) -> Iterator[tuple[int, Role]]:
    """The roles, and where the mailboxes of each begin."""
    at = align(SEMAPHORE_BYTES + len(members) * WORD, PAGE)
    for role in members.roles:
        yield at, role
        at += role.count * 2 * mailbox_bytes(role.mail)


def board_bytes(members: Members) -> int:
    """Bytes of the file of a board with these members."""
    start, last = list(_mail_starts(members))[-1]
    return align(start + last.count * 2 * mailbox_bytes(last.mail), PAGE)
