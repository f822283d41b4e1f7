"""The records of the table in shared memory, and where each lies.

A record is a fixed number of 64-bit words: the number of the change that wrote it last, whether it
is in use, numbers, and a name. Besides its record every seat has six *lease words* in a cache line
of its own: ``METER``, ``UNTIL`` and ``SINCE`` are written by the seat's process without the lock
while it holds a lease, the others by the process that has the lock.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, Generic, Self, TypeVar
from uuid import UUID

import numpy as np

from artos.buffer.layout import LINE, PAGE, WORD, align
from artos.pool.resources import Resource, Want

MAGIC = 0x4152544F_53504F4C  # "ARTOSPOL"
VERSION = 6
NONE = -1

MAGIC_AT, VERSION_AT, CHANGES_AT, JOURNAL_AT, CLOSED_AT, MEMBERS_AT, MUTEX_AT = (
    0, 8, 16, 24, 32, 40, 64
)  # fmt: skip
HANDED_AT, HANDED_TIME_AT = 48, 56
"""The seat (its number plus 1) whose hand-over is not booked, 0 if none; and when it was (ns)."""
TOPS_AT = 128
"""For each area a word: how many of its records, from the first on, were ever in use."""
CHANGED_AT = 192
"""For each area a word: the number of the change that wrote one of its records last."""

METER, UNTIL, DEMAND, SINCE, NEXT, GRANTED = 0, 1, 2, 3, 4, 5
"""``NEXT``: the seat (its number plus 1) that gets next what this one holds, 0 if that is not
certain yet. ``GRANTED``: the number of the resource that this seat was granted last."""
UNWANTED, WANTED, TAKEN_AWAY = 0, 1, 2
"""``DEMAND`` of a seat that holds: no other waits for it; another may; its lease was revoked."""

FREE, WAITING, HELD, REVOKED, EARLY = 0, 1, 2, 3, 4
"""The states of a seat. ``EARLY``: it has asked for a lease, and others of its party have not."""
ASKS = (WAITING, EARLY)
BUSY, MEMORY = 0, 1
"""Why a seat waits: others hold all that it, or one of its party, could use; or too little memory
is left."""


_LARGE = 1 << 62
"""More than anything that is counted here: twice as much still fits into a word."""
_HALVES = struct.Struct(">2q")


@dataclass(slots=True)
class Record:
    """What all records have. ``STRUCT`` packs them, the name (if any) comes last."""

    STRUCT: ClassVar[struct.Struct]
    _values: ClassVar[attrgetter[tuple[Any, ...]]]
    _named: ClassVar[bool]

    def __init_subclass__(cls) -> None:
        names = [name for name in cls.__annotations__ if name != "STRUCT"]
        cls._values, cls._named = attrgetter(*names), "str" in cls.__annotations__[names[-1]]

    @classmethod
    def unpack(cls, memory: memoryview, offset: int) -> Self:
        """Read one."""
        _, _, *values = cls.STRUCT.unpack_from(memory, offset)
        if cls._named:
            values[-1] = values[-1].rstrip(b"\0").decode(errors="replace")
        return cls(*values)

    @property
    def plausible(self) -> bool:
        """Whether a pool may have written these numbers, judged by this record alone."""
        return True

    def pack(self, change: int) -> bytes:
        """Its bytes, as written by change number ``change``."""
        values = type(self)._values(self)
        if self._named:
            return self.STRUCT.pack(change, 1, *values[:-1], values[-1].encode())
        return self.STRUCT.pack(change, 1, *values)


@dataclass(slots=True)
class KindRecord(Record):
    """A kind of resources."""

    STRUCT: ClassVar = struct.Struct("<3q24s")
    fair_turns: int
    """Turns since the last one of an overdue queue (``FairQueue``)."""
    name: str

    @property
    def plausible(self) -> bool:
        """Whether all its numbers are in range."""
        return 0 <= self.fair_turns < _LARGE


@dataclass(slots=True)
class ResourceRecord(Record):
    """A ``Resource``. The halves of the UUID are 0 if there is none."""

    STRUCT: ClassVar = struct.Struct("<7q56s")
    kind: int
    share: int
    memory_mb: int
    uuid_high: int
    uuid_low: int
    name: str

    @classmethod
    def of(cls, resource: Resource, kind: int) -> Self:
        """The record of a resource, whose kind has this number."""
        high, low = _HALVES.unpack(UUID(resource.uuid).bytes if resource.uuid else bytes(16))
        return cls(kind, resource.share, resource.memory_mb, high, low, resource.name)

    @property
    def plausible(self) -> bool:
        """Whether all its numbers are in range."""
        return 0 <= self.kind < KINDS and self.share > 0 and 0 <= self.memory_mb < _LARGE

    @property
    def uuid(self) -> str:
        """The GPU's UUID; "" if there is none."""
        halves = self.uuid_high, self.uuid_low
        return str(UUID(bytes=_HALVES.pack(*halves))) if any(halves) else ""


@dataclass(slots=True)
class MemberRecord(Record):
    """A process that has joined."""

    STRUCT: ClassVar = struct.Struct("<5q64s")
    pid: int
    joined: int
    """When it joined (ns)."""
    alarm: int
    """If one of its seats waits: when the process will look at the table by itself (ns)."""
    name: str

    @property
    def plausible(self) -> bool:
        """Whether all its numbers are in range."""
        return 0 < self.pid < _LARGE and self.alarm >= 0


@dataclass(slots=True)
class AccountRecord(Record):
    """What a workload has held of one kind (ns), and how it waited (ns); cf. ``Account``."""

    STRUCT: ClassVar = struct.Struct("<3q2d7q128s")
    kind: int
    weight: float
    lead: float
    held: int
    turn: int
    """The number of its last grant among all grants of its kind."""
    turns: int
    """How many grants it had."""
    waits: int
    """How many of its leases did not come at once."""
    waited_busy: int
    waited_memory: int
    memory_mb: int
    """What one of its seats needed last."""
    workload: str

    @property
    def plausible(self) -> bool:
        """Whether all its numbers are in range."""
        counts = (
            self.turn, self.turns, self.waits, self.waited_busy, self.waited_memory, self.memory_mb
        )  # fmt: skip
        return (
            0 <= self.kind < KINDS
            and 0 < self.weight < math.inf
            and math.isfinite(self.lead)
            and abs(self.held) < _LARGE
            and min(counts) >= 0
            and max(counts) < _LARGE
        )


@dataclass(slots=True)
class SeatRecord(Record):
    """A contender. What it wants, has and had last are numbers of resources, or ``NONE``."""

    STRUCT: ClassVar = struct.Struct("<18q")
    state: int
    member: int
    account: int
    kind: int
    wants: int
    memory_mb: int
    """What it needs while it holds a lease."""
    left_mb: int
    """What it has on the resource that it names at other times."""
    priority: int
    since: int
    """When it began to wait (ns)."""
    turn: int
    """When it was last granted something (ns)."""
    length: int
    """Of the lease that it asks for (ns); 0: no deadline."""
    resource: int
    last: int
    cause: int
    """Why it waits: ``BUSY`` or ``MEMORY``."""
    party: int
    """The number of its ``Party``; 0: it has none."""
    party_seats: int
    """How many seats that has."""

    @property
    def plausible(self) -> bool:
        """Whether all its numbers are in range."""
        numbers = (self.wants, self.resource, self.last)
        return (
            FREE <= self.state <= EARLY
            and 0 <= self.member < MEMBERS
            and 0 <= self.account < ACCOUNTS
            and 0 <= self.kind < KINDS
            and min(numbers) >= NONE
            and max(numbers) < RESOURCES
            and (self.state == HELD) == (self.resource != NONE)
            and 0 <= self.memory_mb < _LARGE
            and 0 <= self.left_mb < _LARGE
            and self.cause in (BUSY, MEMORY)
            and (self.party > 0 and self.wants != NONE if self.party_seats else not self.party)
            and 0 <= self.party_seats <= SEATS
        )

    @property
    def more_mb(self) -> int:
        """What it needs beyond what it has there already."""
        return max(0, self.memory_mb - self.left_mb)


_FEW = 32
"""Up to this many numbers are compared in less time than a call of NumPy takes."""

Kept = TypeVar("Kept", bound=Record)


class Area(Generic[Kept]):
    """All records of one type: a copy of those in use, which reads only what others changed."""

    def __init__(self, memory: memoryview, offset: int, of: type[Kept], most: int) -> None:
        self.most, self.size = most, of.STRUCT.size
        self._memory, self._offset, self._of = memory, offset, of
        self._stamps = np.ndarray((most,), np.int64, memory, offset, (self.size,))
        words, number = memory[:PAGE].cast("q"), [*_COUNTS].index(of)
        self._words, self._top = words, 0
        self._top_at, self._changed_at = TOPS_AT + WORD * number, CHANGED_AT + WORD * number
        self._records: dict[int, Kept] = {}
        self._dirty: dict[int, None] = {}

    def refresh(self, seen: int) -> None:
        """Read what was changed after change number ``seen``.

        Raises:
            ValueError: no pool has written what it reads.
        """
        if self._words[self._changed_at // WORD] <= seen:
            return
        self._top = self._words[self._top_at // WORD]
        if not 0 <= self._top <= self.most:
            raise ValueError(f"{self._top} records where there are at most {self.most}")
        stamps = self._stamps[: self._top]
        if self._top > _FEW:
            written: list[int] = (stamps > seen).nonzero()[0].tolist()
        else:
            written = [number for number, stamp in enumerate(stamps.tolist()) if stamp > seen]
        for number in written:
            offset = self._offset + number * self.size
            if not self._memory[offset + WORD]:
                self._records.pop(number, None)
                continue
            record = self.peek(number)
            if not record.plausible:
                raise ValueError(f"impossible: {record}")
            self._records[number] = record

    def peek(self, number: int) -> Kept:
        """A record as it is in memory; without the lock it may be changing right now.

        Raises:
            IndexError: there is no such record.
        """
        if not 0 <= number < self.most:
            raise IndexError(f"record {number} of {self.most}")
        return self._of.unpack(self._memory, self._offset + number * self.size)

    def forget(self) -> None:
        """Drop the copy, and with it all that was changed in it."""
        self._records.clear()
        self._dirty.clear()

    def __getitem__(self, number: int) -> Kept:
        return self._records[number]

    def __contains__(self, number: int) -> bool:
        return number in self._records

    def __len__(self) -> int:
        return len(self._records)

    def items(self) -> list[tuple[int, Kept]]:
        """The records in use, with their numbers."""
        return [*self._records.items()]

    def values(self) -> list[Kept]:
        """The records in use."""
        return [*self._records.values()]

    def find(self, **values: object) -> int | None:
        """The number of the record with these values."""
        return next(
            (n for n, each in self._records.items()
             if all(getattr(each, key) == value for key, value in values.items())),
            None,
        )  # fmt: skip

    def edit(self, number: int) -> Kept:
        """A record that is going to be changed."""
        self._dirty[number] = None
        return self._records[number]

    def add(self, record: Kept) -> int | None:
        """Add a record; returns its number, None if there is no room."""
        number = next((n for n in range(self.most) if n not in self._records), None)
        if number is not None:
            self._records[number] = record
            self._dirty[number] = None
        return number

    def remove(self, number: int) -> None:
        """Have a record no more; its number is free."""
        del self._records[number]
        self._dirty[number] = None

    def changes(self, change: int) -> list[tuple[int, bytes]]:
        """What was edited since the last call: at which offsets to write which bytes."""
        if not self._dirty:
            return []
        found = [(self._changed_at, change.to_bytes(WORD, "little"))]
        if (top := max(self._dirty) + 1) > self._top:
            self._top = top
            found.append((self._top_at, top.to_bytes(WORD, "little")))
        for number in self._dirty:
            record = self._records.get(number)
            new = record.pack(change) if record else struct.pack("<2q", change, 0)
            found.append((self._offset + number * self.size, new))
        self._dirty.clear()
        return found


def want_of(seat: SeatRecord, resources: Area[ResourceRecord]) -> Want:
    """What a seat asks for: any resource or the one it names, and how much more memory there."""
    return Want(resources[seat.wants].name if seat.wants != NONE else "", seat.more_mb)


def resource_of(record: ResourceRecord, kind: str) -> Resource:
    """The resource that a record stands for."""
    return Resource(record.name, kind, record.share, record.memory_mb, record.uuid)


KINDS, RESOURCES, MEMBERS, ACCOUNTS, SEATS = 8, 512, 128, 512, 1024
NAME_BYTES, KIND_BYTES, WORKLOAD_BYTES, MEMBER_BYTES = 56, 24, 128, 64
_COUNTS: dict[type[Record], int] = {
    KindRecord: KINDS,
    ResourceRecord: RESOURCES,
    MemberRecord: MEMBERS,
    AccountRecord: ACCOUNTS,
    SeatRecord: SEATS,
}


def _layout() -> tuple[dict[type[Record], int], int]:
    found, at = dict[type[Record], int](), PAGE
    for each, count in _COUNTS.items():
        found[each] = at
        at = align(at + count * each.STRUCT.size, PAGE)
    return found, at


OFFSETS, LEASE_WORDS_START = _layout()
"""Where the records of each type begin, and behind them the lease words."""


def lease_word_at(seat: int, word: int = 0) -> int:
    """Where a lease word of a seat is, in bytes."""
    return LEASE_WORDS_START + seat * LINE + word * WORD


JOURNAL_START = LEASE_WORDS_START + SEATS * LINE
JOURNAL_BYTES = 2 * JOURNAL_START
"""Enough to change everything at once."""
TABLE_BYTES = align(JOURNAL_START + JOURNAL_BYTES, PAGE)
