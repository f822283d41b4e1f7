"""The header block of a data key: the counters by which a writer and its readers agree."""

from __future__ import annotations

from artos.buffer.layout import KEY_HEADER_BYTES, MAGIC, MAX_CONSUMERS, WORD
from artos.specs.keys import DataKey

# Positions in 64-bit words. Words with different writers lie on different lines of the cache, so
# that processes do not slow each other down.
_WRITTEN, _RESERVED = 8, 9
_RELEASED = 16
_CURSORS = 24
assert _CURSORS + 2 * MAX_CONSUMERS <= KEY_HEADER_BYTES // WORD


class KeyHeader:
    """The header block of one key. All counters are absolute step numbers and never wrap.

    Rows below ``written`` are committed; rows from there to ``reserved`` may be half written. Each
    counter has one writer, so none needs a lock: the actor for ``written`` and ``reserved``, the
    process that runs the triggers of this block for the others.
    """

    def __init__(self, words: memoryview) -> None:
        self._words = words

    @property
    def written(self) -> int:
        """Rows committed so far."""
        return self._words[_WRITTEN]

    @property
    def reserved(self) -> int:
        """Rows allocated so far: everything below ``reserved - capacity`` may be overwritten."""
        return self._words[_RESERVED]

    @property
    def released(self) -> int:
        """Rows that every consumer has acknowledged; the writer may reuse them."""
        return self._words[_RELEASED]

    def cursor(self, consumer: int) -> tuple[int, int]:
        """``(claimed, acknowledged)`` of the consumer with this number."""
        at = _CURSORS + 2 * consumer
        return self._words[at], self._words[at + 1]

    def describe(self, key: DataKey, envs: int, capacity: int, array: int) -> None:
        """Write the facts once, at creation."""
        for at, fact in enumerate((MAGIC, key.row_bytes(envs), capacity, array)):
            self._words[at] = fact

    def begin(self, step: int, consumers: int) -> None:
        """Set every counter to the first row, once, at creation."""
        for at in (_WRITTEN, _RESERVED, _RELEASED, *range(_CURSORS, _CURSORS + 2 * consumers)):
            self._words[at] = step

    def set_written(self, step: int) -> None:
        """Publish rows up to ``step``."""
        self._words[_WRITTEN] = step

    def set_reserved(self, step: int) -> None:
        """Announce that rows up to ``step`` may be touched."""
        self._words[_RESERVED] = step

    def set_released(self, step: int) -> None:
        """Let the writer reuse rows below ``step``."""
        self._words[_RELEASED] = step

    def set_cursor(self, consumer: int, claimed: int, acknowledged: int) -> None:
        """Store a consumer's cursor, so that it survives the process that moves it."""
        at = _CURSORS + 2 * consumer
        self._words[at], self._words[at + 1] = claimed, acknowledged

    def __repr__(self) -> str:
        return f"<KeyHeader written={self.written} released={self.released}>"
