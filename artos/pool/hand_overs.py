"""Leases that go straight to the next one, before anything is decided or booked.

What a decision takes would be time in which a device idles. So where it is certain who is next
(``heirs`` of ``choice``), the table says so while the device is still held; whoever gives it back
writes no more than the live words of both seats, under the lock. The next clerk, most often that
of the same process, books what has happened, as of the time when it did.
"""

from __future__ import annotations

from artos.buffer.doorbell import ordered
from artos.buffer.layout import WORD
from artos.pool import records
from artos.pool.meter import started
from artos.pool.records import Area, SeatRecord
from artos.system.shared_mutex import SharedMutex

_HANDED, _TIME = records.HANDED_AT // WORD, records.HANDED_TIME_AT // WORD
_JOURNAL = records.JOURNAL_AT // WORD


class HandOvers:
    """Those of one table, whose words these are."""

    def __init__(self, words: memoryview, mutex: SharedMutex, seats: Area[SeatRecord]) -> None:
        self._words, self._mutex, self._seats = words, mutex, seats

    def hand_over(self, seat: int, now: int) -> int | None:
        """Give what a seat held until ``now`` (ns) to its heir, whose lease begins.

        Returns the number of the heir, to be woken; None, and nothing has happened, if it is not
        certain who is next, or if others are busy with the table.
        """
        if not self._words[_line(seat) + records.HEIR] or not self._mutex.acquire(0):
            return None
        try:
            return self._handed_over(seat, now)
        finally:
            self._mutex.release()

    def _handed_over(self, seat: int, now: int) -> int | None:
        words, heir = self._words, self._words[_line(seat) + records.HEIR] - 1
        if not 0 <= heir < self._seats.most or words[_HANDED] or words[_JOURNAL]:
            return None
        words[_TIME] = now
        ordered()
        words[_HANDED] = seat + 1  # from here on it has happened: a clerk does what is left
        to, length = _line(heir), self._seats.peek(heir).length
        words[to + records.UNTIL] = now + length if length else 0
        words[to + records.SINCE] = now
        words[to + records.DOOR] = records.WANTED  # until it is known
        words[to + records.GRANTED] = words[_line(seat) + records.GRANTED]
        ordered()
        words[to + records.METER] = started(0, now)  # what the heir looks at
        return heir

    @property
    def unbooked(self) -> tuple[int, int] | None:
        """The seat that handed over what was not booked yet, and when (ns); under the lock."""
        seat = self._words[_HANDED]
        return (seat - 1, self._words[_TIME]) if seat else None


def _line(seat: int) -> int:
    return records.live_at(seat) // WORD
