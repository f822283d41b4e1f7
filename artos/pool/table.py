"""The table that all processes of a pool share: a file, one lock, and changes that are atomic.

A change is first written into the journal, then made, then the journal is emptied: the process that
takes the lock after one that was killed in the middle finishes the change, or finds that nothing
was begun. The lock is a robust mutex: the kernel releases it when its owner ends.
"""

from __future__ import annotations

import errno
import os
import struct
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

from artos.buffer.doorbell import fence, ordered
from artos.buffer.layout import LINE, WORD
from artos.buffer.segment import Segment
from artos.pool import records
from artos.pool.faults import PoolDamaged, PoolStuck
from artos.pool.file import check_version, locks_of, make, users_of
from artos.pool.folder import TABLE, PoolFolder
from artos.pool.hand_overs import HandOvers
from artos.pool.records import (
    AccountRecord,
    Area,
    KindRecord,
    MemberRecord,
    ResourceRecord,
    SeatRecord,
)
from artos.system.closing import Closing
from artos.system.process_locks import ProcessLocks
from artos.system.shared_mutex import SharedMutex

_LOCK_SECONDS = 5.0
"""A process that keeps the lock longer must have been stopped: changes take microseconds."""
_TRIES = 1000
"""Attempts to open a table that others remove in the meantime, each the last of its pool."""
_ENTRY, _WORD_ENTRY = struct.Struct("<2q"), struct.Struct("<3q")
_NONSENSE = (LookupError, ArithmeticError, ValueError, AssertionError, struct.error)
"""What can be raised by reading, or by calculating with, numbers that no pool has written."""
_BROKEN_LOCK = (errno.EINVAL, errno.EPERM, errno.ENOTRECOVERABLE)
"""Errors of a mutex that the C library has not made, or that is not ours though we took it."""


class Table(Closing):
    """The mapped table. It is read and changed within ``change`` only."""

    def __init__(self, folder: PoolFolder, segment: Segment, locks: ProcessLocks) -> None:
        self.folder, self.path, self.locks = folder, segment.path, locks
        memory = self._memory = segment.memory
        self._words = memory[: records.JOURNAL_START].cast("q")
        self._mutex = SharedMutex(memory, records.MUTEX_AT)
        at = records.OFFSETS
        self.kinds = Area(memory, at[KindRecord], KindRecord, records.KINDS)
        self.resources = Area(memory, at[ResourceRecord], ResourceRecord, records.RESOURCES)
        self.members = Area(memory, at[MemberRecord], MemberRecord, records.MEMBERS)
        self.accounts = Area(memory, at[AccountRecord], AccountRecord, records.ACCOUNTS)
        self.seats = Area(memory, at[SeatRecord], SeatRecord, records.SEATS)
        self.hand_overs = HandOvers(self._words, self._mutex, self.seats)
        self._areas: tuple[Area[Any], ...] = (
            self.kinds, self.resources, self.members, self.accounts, self.seats
        )  # fmt: skip
        self.damage_guard = _DamageGuard(self)
        """Within its block, errors that nonsense in the table causes become ``PoolDamaged``."""
        self._new_words: dict[int, int] = {}
        """Words that this change will write, by their offset."""
        self._seen = -1

    @classmethod
    def open(cls, folder: Path, *, create: bool = True) -> Table:
        """The table in ``folder``, made if need be.

        Raises:
            FileNotFoundError: there is none and ``create`` is false.
            PoolDamaged: what is there is no table of a pool.
            PoolVersion: it is of another version, and in use.
            NotOurs: the folder is another user's, or holds what no pool has made.
            ShmTooSmall: there is no room for it.
        """
        for _ in range(_TRIES):
            try:
                return cls._open(folder, create)
            except FileNotFoundError:  # the last member has just left
                if not create:
                    raise
        raise PoolDamaged(str(folder / TABLE), "it is removed again and again")

    @classmethod
    def _open(cls, folder: Path, create: bool) -> Table:
        opened = PoolFolder.open(folder, create=create)
        try:
            if create:
                make(opened)
            locks = locks_of(opened)
            try:
                check_version(opened, locks)
                return cls(opened, Segment.over(folder / TABLE, locks.fileno()), locks)
            except BaseException:
                locks.close()
                raise
        except BaseException as error:
            if not isinstance(error, FileNotFoundError):
                opened.leave()
            opened.close()
            raise

    def change(self) -> AbstractContextManager[None]:
        """Hold the lock within a block; what it changes is committed at its end, all or nothing.

        Raises:
            PoolStuck: another process keeps the lock.
            PoolDamaged: the table holds what no pool has written; nothing is changed any more.
        """
        return _Change(self)

    def begin_change(self) -> None:
        """Take the lock, finish a change that a killed process has begun, and read what is new."""
        with self.damage_guard:
            # The kernel kills a process that touches pages that a file no longer has (SIGBUS).
            if (size := os.fstat(self.locks.fileno()).st_size) != records.TABLE_BYTES:
                raise ValueError(f"it has {size} bytes, not {records.TABLE_BYTES}")
            if not self._mutex.acquire(_LOCK_SECONDS):
                if not self._others():
                    raise ValueError("its lock is taken, and no other process uses it")
                raise PoolStuck(str(self.path), _LOCK_SECONDS, self.users)
            try:
                if self._words[records.JOURNAL_AT // WORD]:
                    self._redo_change()
                if self.changes != self._seen:
                    for area in self._areas:
                        area.refresh(max(self._seen, 0))
                    self._seen = self.changes
            except BaseException:
                self.end_change(keep=False)
                raise

    def end_change(self, *, keep: bool) -> None:
        """Commit what was changed, or forget it, and give the lock back."""
        try:
            if keep:
                self.commit()
        except BaseException:
            self._forget_change()
            raise
        else:
            if not keep:
                self._forget_change()
        finally:
            self._mutex.release()

    def damaged(self, error: BaseException) -> PoolDamaged:
        """The error for a table that is damaged, as ``error`` shows."""
        ours = type(error) is ValueError  # whose message is a sentence
        what = str(error) if ours else f"{type(error).__name__}: {error}"
        return PoolDamaged(str(self.path), what, self._others())

    @property
    def users(self) -> list[int]:
        """The living processes that use it."""
        return users_of(self.locks)

    def _others(self) -> list[int]:
        return [pid for pid in self.users if pid != os.getpid()]

    def commit(self) -> None:
        """Write what was changed so far into shared memory; the lock is kept."""
        change = self.changes + 1
        entries = [entry for area in self._areas for entry in area.changes(change)]
        if not entries and not self._new_words:
            return
        words = [(records.CHANGES_AT, change), *self._new_words.items()]
        self._new_words.clear()
        journal = b"".join(
            [part for at, new in entries for part in (_ENTRY.pack(at, len(new)), new)]
            + [_WORD_ENTRY.pack(at, WORD, value) for at, value in words]
        )
        assert len(journal) <= records.JOURNAL_BYTES
        start = records.JOURNAL_START
        self._memory[start : start + len(journal)] = journal
        ordered()
        self._words[records.JOURNAL_AT // WORD] = len(journal)
        ordered()
        for at, new in entries:
            self._memory[at : at + len(new)] = new
        ordered()  # a process that waits looks at its lease words only
        for at, value in words:
            self._words[at // WORD] = value
        ordered()
        self._words[records.JOURNAL_AT // WORD] = 0
        self._seen = change

    @property
    def changes(self) -> int:
        """How many changes were made."""
        return self._words[records.CHANGES_AT // WORD]

    @property
    def joins(self) -> int:
        """How many processes have joined; may be read without the lock."""
        return self._words[records.MEMBERS_AT // WORD]

    def count_join(self) -> None:
        """Count that a process has joined."""
        self._new_words[records.MEMBERS_AT] = self.joins + 1

    @property
    def closed(self) -> bool:
        """Whether the last member has left: the file is, or is to be, removed."""
        return bool(self._words[records.CLOSED_AT // WORD])

    def remove(self) -> None:
        """Close it for good and delete the file; within ``change``, without members."""
        self._new_words[records.CLOSED_AT] = 1
        self.commit()
        if self.locks.is_of(TABLE, self.folder.fileno()):
            self.folder.clear()
        # else it was removed already, and the folder may have another one by now

    # -- lease words ---------------------------------------------------------------------------

    def lease_words(self, seat: int) -> memoryview:
        """The lease words of a seat, in shared memory."""
        start = records.lease_word_at(seat) // WORD
        return self._words[start : start + LINE // WORD]

    def lease_word(self, seat: int, word: int) -> int:
        """A lease word of a seat as it will be after this change."""
        at = records.lease_word_at(seat, word)
        return self._new_words.get(at, self._words[at // WORD])

    def set_lease_word(self, seat: int, word: int, value: int) -> None:
        """Change a lease word of a seat together with everything else in this change."""
        self._new_words[records.lease_word_at(seat, word)] = value

    def mark_wanted(self, seats: list[int]) -> None:
        """Mark seats at once: from now on none of them begins or ends a lease without the lock."""
        for seat in seats:
            words = self.lease_words(seat)
            if words[records.DEMAND] == records.UNWANTED:
                words[records.DEMAND] = records.WANTED
        fence()

    def booked(self) -> None:
        """Mark the hand-over that was not booked as booked, with this change."""
        self._new_words[records.HANDED_AT] = 0

    def _redo_change(self) -> None:
        """Finish the change in which a process was killed.

        Raises:
            ValueError: no pool has written such a journal.
        """
        length = self._words[records.JOURNAL_AT // WORD]
        if not 0 < length <= records.JOURNAL_BYTES:
            raise ValueError(f"its journal has {length} bytes")
        text, at, found = self._memory[records.JOURNAL_START :][:length], 0, []
        while at < length:
            to, size = _ENTRY.unpack_from(text, at)
            at += _ENTRY.size
            if not (0 <= to < to + size <= records.JOURNAL_START and at + size <= length):
                raise ValueError(f"its journal puts {size} bytes at {to}")
            found.append((to, bytes(text[at : at + size])))
            at += size
        change = dict(found).get(records.CHANGES_AT, b"")
        if int.from_bytes(change, "little") not in (self.changes, self.changes + 1):
            raise ValueError("its journal is that of an earlier change")
        for to, new in found:  # all of which was checked before
            if len(new) == WORD:  # in one piece: it may be read at any time
                ordered()
                self._words[to // WORD] = int.from_bytes(new, "little", signed=True)
            else:
                self._memory[to : to + len(new)] = new
        ordered()
        self._words[records.JOURNAL_AT // WORD] = 0

    def _forget_change(self) -> None:
        for area in self._areas:
            area.forget()
        self._new_words.clear()
        self._seen = -1

    def close(self) -> None:
        """Close its locks and its folder; twice is fine."""
        self.locks.close()
        self.folder.close()


class _Change(AbstractContextManager[None]):
    """One change as a block; a class, as a generator would cost more than the lock does."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __enter__(self) -> None:
        self._table.begin_change()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._table.damage_guard:
            self._table.end_change(keep=kind is None)
        if isinstance(error, _NONSENSE):
            raise self._table.damaged(error) from error


class _DamageGuard(AbstractContextManager[None]):
    """``Table.damage_guard``; a class for the same reason, made once per table."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        broken = isinstance(error, OSError) and error.errno in _BROKEN_LOCK
        if error is not None and (broken or isinstance(error, _NONSENSE)):
            raise self._table.damaged(error) from error
