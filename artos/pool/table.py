"""The table that all processes of a pool share: a file, one lock, and changes that are whole.

A change is first written into the journal, then made, then the journal is emptied: whoever takes
the lock after a process that died in the midst of it finishes the change, or finds that nothing
was begun. The lock is a robust mutex: the kernel gives it back when its owner dies.
"""

from __future__ import annotations

import errno
import os
import struct
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

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
"""Beyond this a process that has the lock must have been stopped: changes take microseconds."""
_TRIES = 1000
"""Of opening a table that others remove meanwhile, the last of a pool each time."""
_ENTRY, _WORD_ENTRY = struct.Struct("<2q"), struct.Struct("<3q")
_NONSENSE = (LookupError, ArithmeticError, ValueError, AssertionError, struct.error)
"""What reading, or reckoning with, numbers that no pool has written can raise."""
_BROKEN_LOCK = (errno.EINVAL, errno.EPERM, errno.ENOTRECOVERABLE)
"""What the C library says of a mutex that it has not made, or that is not ours though we took it.
"""


class Table(Closing):
    """The mapped table. Read and change it within ``change`` only."""

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
        self.sound = _Sound(self)
        """Has what comes of nonsense in the table, within its block, raised as ``PoolDamaged``."""
        self._live: dict[int, int] = {}
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
            opened = PoolFolder.open(folder, create=create)
            try:
                if create:
                    make(opened)
                return cls._attach(opened)
            except FileNotFoundError:  # the last member has just left
                opened.close()
                if not create:
                    raise
            except BaseException:
                opened.leave()
                opened.close()
                raise
        raise PoolDamaged(str(folder / TABLE), "it is removed again and again")

    @classmethod
    def _attach(cls, folder: PoolFolder) -> Table:
        locks = locks_of(folder)
        path = folder.path / TABLE
        try:
            check_version(folder, locks)
            return cls(folder, Segment.over(path, locks.fileno()), locks)
        except BaseException:
            locks.close()
            raise

    def change(self) -> AbstractContextManager[None]:
        """Have the lock; what is changed meanwhile becomes true as a whole at the end, or not.

        Raises:
            PoolStuck: another process keeps the lock.
            PoolDamaged: the table holds what no pool has written; nothing is changed any more.
        """
        return _Change(self)

    def begin(self) -> None:
        """See ``change``."""
        with self.sound:
            self._check_size()
            if not self._mutex.acquire(_LOCK_SECONDS):
                self._complain_of_lock()
            try:
                self._redo()
                self._refresh()
            except BaseException:
                self.end(keep=False)
                raise

    def end(self, *, keep: bool) -> None:
        """See ``change``."""
        try:
            if keep:
                self.commit()
        except BaseException:
            self._forget()
            raise
        else:
            if not keep:
                self._forget()
        finally:
            self._mutex.release()

    def damaged(self, error: BaseException) -> PoolDamaged:
        """That the table is damaged, as this error shows."""
        ours = type(error) is ValueError  # which says it in words
        what = str(error) if ours else f"{type(error).__name__}: {error}"
        return PoolDamaged(str(self.path), what, self._others())

    def _check_size(self) -> None:
        """Who touches pages that a file has no longer is killed by the kernel (SIGBUS)."""
        if (size := os.fstat(self.locks.fileno()).st_size) != records.TABLE_BYTES:
            raise ValueError(f"it has {size} bytes, not {records.TABLE_BYTES}")

    def _complain_of_lock(self) -> NoReturn:
        if not self._others():
            raise ValueError("its lock is taken, and no other process uses it")
        raise PoolStuck(str(self.path), _LOCK_SECONDS, self.users)

    @property
    def users(self) -> list[int]:
        """The processes that live and use it."""
        return users_of(self.locks)

    def _others(self) -> list[int]:
        return [pid for pid in self.users if pid != os.getpid()]

    def commit(self) -> None:
        """Make true what was changed so far; the lock is kept."""
        change = self.changes + 1
        entries = [entry for area in self._areas for entry in area.changes(change)]
        if not entries and not self._live:
            return
        words = [(records.CHANGES_AT, change), *self._live.items()]
        self._live.clear()
        self._write_journal(entries, words)
        for at, new in entries:
            self._memory[at : at + len(new)] = new
        ordered()  # whoever waits looks at its live words only
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
        """A process joined."""
        self._live[records.MEMBERS_AT] = self.joins + 1

    @property
    def closed(self) -> bool:
        """Whether the last member has left: the file is, or is to be, removed."""
        return bool(self._words[records.CLOSED_AT // WORD])

    def remove(self) -> None:
        """Close it for good and delete the file; within ``change``, without members."""
        self._live[records.CLOSED_AT] = 1
        self.commit()
        if self.locks.is_of(TABLE, self.folder.fileno()):
            self.folder.clear()
        # else somebody has removed it already, and the folder may have another one by now

    # -- live words ----------------------------------------------------------------------------

    def live(self, seat: int) -> memoryview:
        """The live words of a seat."""
        start = records.live_at(seat) // WORD
        return self._words[start : start + LINE // WORD]

    def live_word(self, seat: int, word: int) -> int:
        """A live word as it will be after this change."""
        at = records.live_at(seat, word)
        return self._live.get(at, self._words[at // WORD])

    def set_live(self, seat: int, word: int, value: int) -> None:
        """Change a live word together with everything else of this change."""
        self._live[records.live_at(seat, word)] = value

    def shut(self, seats: list[int]) -> None:
        """Shut doors at once: from now on these seats neither begin nor end a lease unseen."""
        for seat in seats:
            words = self.live(seat)
            if words[records.DOOR] == records.OPEN:
                words[records.DOOR] = records.WANTED
        fence()

    def booked(self) -> None:
        """The hand-over that was not booked is, with this change."""
        self._live[records.HANDED_AT] = 0

    # -- the journal ---------------------------------------------------------------------------

    def _write_journal(
        self, entries: list[tuple[int, bytes]], words: list[tuple[int, int]]
    ) -> None:
        text = b"".join(
            [part for at, new in entries for part in (_ENTRY.pack(at, len(new)), new)]
            + [_WORD_ENTRY.pack(at, WORD, value) for at, value in words]
        )
        assert len(text) <= records.JOURNAL_BYTES
        start = records.JOURNAL_START
        self._memory[start : start + len(text)] = text
        ordered()
        self._words[records.JOURNAL_AT // WORD] = len(text)
        ordered()

    def _redo(self) -> None:
        """Finish the change that a process died in."""
        if not self._words[records.JOURNAL_AT // WORD]:
            return
        for to, new in self._read_journal():
            if len(new) == WORD:  # in one piece: it may be read at any time
                ordered()
                self._words[to // WORD] = int.from_bytes(new, "little", signed=True)
            else:
                self._memory[to : to + len(new)] = new
        ordered()
        self._words[records.JOURNAL_AT // WORD] = 0

    def _read_journal(self) -> list[tuple[int, bytes]]:
        """What the change that is written there puts where.

        Raises:
            ValueError: nobody has written this.
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
        return found

    def _refresh(self) -> None:
        if self.changes != self._seen:
            for area in self._areas:
                area.refresh(max(self._seen, 0))
            self._seen = self.changes

    def _forget(self) -> None:
        for area in self._areas:
            area.forget()
        self._live.clear()
        self._seen = -1

    def close(self) -> None:
        """Let go of it; twice is fine."""
        self.locks.close()
        self.folder.close()


class _Change(AbstractContextManager[None]):
    """Between ``begin`` and ``end``; a class, as a generator would cost more than the lock."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __enter__(self) -> None:
        self._table.begin()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._table.sound:
            self._table.end(keep=kind is None)
        if isinstance(error, _NONSENSE):
            raise self._table.damaged(error) from error


class _Sound(AbstractContextManager[None]):
    """See ``Table.sound``; a class for the same reason, and used again and again."""

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
