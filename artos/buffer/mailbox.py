"""Mailboxes in shared memory: how invocations and reports travel between processes of one node."""

from __future__ import annotations

from artos.buffer.doorbell import SEMAPHORE_BYTES, Doorbell, ordered
from artos.buffer.layout import LINE, WORD, words_of
from artos.errors import MailboxFull

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
        self.bell = Doorbell(memory, offset + _WORDS_BYTES, create=create)
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
        self.bell.ring()

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

    def get(self, seconds: float, *, spin: float = 0.0) -> bytes | None:
        """The oldest message, waiting at most ``seconds`` for one; None if none came."""
        message = self.take()
        while message is None and self.bell.wait(seconds, spin=spin):
            message = self.take()
        return message

    def clear(self) -> None:
        """Forget every message: only while the reader is gone."""
        self._words[_TAIL] = self._words[_HEAD]
        self.bell.drain()

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
