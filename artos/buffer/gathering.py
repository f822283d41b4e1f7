"""How far each of several processes has come that compute together, in shared memory."""

from __future__ import annotations

import os
from pathlib import Path

from artos.buffer.doorbell import SEMAPHORE_BYTES, Doorbell, ordered
from artos.buffer.layout import LINE, PAGE, WORD, align, words_of
from artos.buffer.segment import Segment

_PID, _STEPS, _GIVEN, _GIVEN_IN = 0, 1, 2, 3
_TERM = 1 << 40
"""Counts are of a term: all that a process wrote in an earlier one is less."""


def gathering_bytes(count: int) -> int:
    """The size of the file for so many processes."""
    return align(count * (LINE + SEMAPHORE_BYTES), PAGE)


class Gathering:
    """A line for each process: its id, the steps it has begun, and a number that it was given.

    A process writes its own line, and the first one what it gives to the others. When one of them
    dies all begin a new ``term``.
    """

    def __init__(self, segment: Segment, count: int, *, create: bool = False) -> None:
        self._segment, self.count = segment, count
        memory = segment.memory
        self._lines = [words_of(memory, LINE * n, LINE // WORD) for n in range(count)]
        self._doorbells = [
            Doorbell(memory, LINE * count + SEMAPHORE_BYTES * n, create=create)
            for n in range(count)
        ]
        self.rank = self._base = 0

    @classmethod
    def create(cls, path: Path, count: int) -> Gathering:
        """Make the file; nobody has come yet.

        Raises:
            ShmTooSmall: there is no room for it.
        """
        return cls(Segment.create(path, gathering_bytes(count)), count, create=True)

    @classmethod
    def attach(cls, path: Path, count: int) -> Gathering:
        """Map the file that another process made."""
        return cls(Segment.attach(path), count)

    def come(self, rank: int, term: int) -> None:
        """This process is number ``rank`` from now on."""
        self.rank, self._base = rank, term * _TERM
        line = self._lines[rank]
        line[_PID], line[_STEPS] = os.getpid(), self._base

    # -- steps that all take together ----------------------------------------------------------

    def begin(self) -> None:
        """This process begins the next step."""
        self._lines[self.rank][_STEPS] += 1

    def behind(self) -> list[int]:
        """Those that have not begun the step that this process is in."""
        mine = self._lines[self.rank][_STEPS]
        return [n for n, line in enumerate(self._lines) if line[_STEPS] < mine]

    def has_come(self, rank: int) -> bool:
        """Whether a rank has come in this term."""
        return self._lines[rank][_STEPS] >= self._base

    def pid(self, rank: int) -> int:
        """The process of a rank; 0 if it never came."""
        return self._lines[rank][_PID]

    # -- what the first one tells the others ---------------------------------------------------

    def give(self, rank: int, number: int) -> None:
        """Tell another one a number of 63 bits."""
        line = self._lines[rank]
        line[_GIVEN] = number
        ordered()
        line[_GIVEN_IN] = self._base
        self._doorbells[rank].ring()

    @property
    def given(self) -> int | None:
        """What this process was told in this term; None if it was not yet."""
        line = self._lines[self.rank]
        return line[_GIVEN] if line[_GIVEN_IN] == self._base else None

    def wait(self, seconds: float) -> None:
        """Sleep until this process has been given something, at most ``seconds``."""
        self._doorbells[self.rank].wait(seconds)

    def __repr__(self) -> str:
        return f"<Gathering of {self.count}, {self.rank} here>"
