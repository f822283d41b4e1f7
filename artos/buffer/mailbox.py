"""Mailboxes in shared memory: how invocations and reports travel between processes of one node."""

from __future__ import annotations

import numpy as np

from artos.buffer.doorbell import SEMAPHORE_BYTES, Doorbell, fence
from artos.buffer.layout import LINE, WORD
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
        self._words = np.ndarray(_WORDS_BYTES // WORD, np.int64, memory, offset)
        self.bell = Doorbell(memory, offset + _WORDS_BYTES, create=create)
        self._data = memoryview(memory)[offset + header_bytes() : offset + header_bytes() + size]

    def put(self, message: bytes) -> None:
        """Append a message and wake the reader.

        Raises:
            MailboxFull: there is no room; nothing was written.
        """
        head, record = (
            int(self._words[_HEAD]),
            len(message).to_bytes(_LENGTH_BYTES, "little") + message,
        )
        if head + len(record) - int(self._words[_TAIL]) > self.size:
            raise MailboxFull(self.name, self.size)
        at = head % self.size
        first = min(len(record), self.size - at)
        self._data[at : at + first] = record[:first]
        self._data[: len(record) - first] = record[first:]
        fence()
        self._words[_HEAD] = head + len(record)
        self.bell.ring()

    def take(self) -> bytes | None:
        """The oldest message, or None if there is none. Does not touch the semaphore."""
        tail = int(self._words[_TAIL])
        if int(self._words[_HEAD]) == tail:
            return None
        fence()
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

    def _bytes(self, at: int, count: int) -> bytes:
        at %= self.size
        first = min(count, self.size - at)
        return bytes(self._data[at : at + first]) + bytes(self._data[: count - first])


def header_bytes() -> int:
    """Bytes of a mailbox before its records."""
    return _WORDS_BYTES + SEMAPHORE_BYTES


def mailbox_bytes(size: int) -> int:
    """Bytes a mailbox with ``size`` bytes of records takes in the mapping."""
    return header_bytes() + size
