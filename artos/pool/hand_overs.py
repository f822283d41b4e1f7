"""Leases that go straight to the next holder, before anything is decided or booked.

A device would idle while a decision is made. So where it is certain who is next (``next_holders``
of ``choice``), the table says so while the device is still held; the process that gives it back
writes only the lease words of both seats, under the lock. The next change of the table, most often
by the same process, books what has happened, as of the time when it did.
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
    """The hand-overs of one table, whose words these are."""

    def __init__(self, words: memoryview, mutex: SharedMutex, seats: Area[SeatRecord]) -> None:
        self._words, self._mutex, self._seats = words, mutex, seats

    def hand_over(self, seat: int, now: int) -> int | None:
        """Give what a seat held until ``now`` (ns) to the next seat, whose lease begins.

        Returns the number of that seat, whose process is to be woken; None, and nothing has
        happened, if it is not certain who is next, or if others are busy with the table.
        """
        words, held = self._words, _line(seat)
        if not words[held + records.NEXT] or not self._mutex.acquire(0):
            return None
        try:
            next_seat = words[held + records.NEXT] - 1
            if not 0 <= next_seat < self._seats.most or words[_HANDED] or words[_JOURNAL]:
                return None
            words[_TIME] = now
            ordered()
            words[_HANDED] = seat + 1  # from here on it has happened: the next change does the rest
            to, length = _line(next_seat), self._seats.peek(next_seat).length
            words[to + records.UNTIL] = now + length if length else 0
            words[to + records.SINCE] = now
            words[to + records.DEMAND] = records.WANTED  # until it is known
            words[to + records.GRANTED] = words[held + records.GRANTED]
            ordered()
            words[to + records.METER] = started(0, now)  # the word that its process looks at
            return next_seat
        finally:
            self._mutex.release()

    @property
    def unbooked(self) -> tuple[int, int] | None:
        """The seat that handed over what was not booked yet, and when (ns); under the lock."""
        seat = self._words[_HANDED]
        return (seat - 1, self._words[_TIME]) if seat else None


def _line(seat: int) -> int:
    return records.lease_word_at(seat) // WORD
