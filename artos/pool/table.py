"""The table that all processes of a pool share: a file, one lock, and changes that are whole.

A change is first written into the journal, then made, then the journal is emptied: whoever takes
the lock after a process that died in the midst of it finishes the change, or finds that nothing
was begun. The lock is a robust mutex: the kernel gives it back when its owner dies.
"""

from __future__ import annotations

import os
import struct
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from artos.buffer.layout import LINE, WORD
from artos.buffer.mailbox import fence, ordered
from artos.buffer.segment import Segment
from artos.pool import records
from artos.pool.faults import PoolStuck, PoolVersion
from artos.pool.folder import check, file_mode, is_shared, prepare
from artos.pool.hand_overs import HandOvers
from artos.pool.records import (
    AccountRecord,
    Area,
    KindRecord,
    MemberRecord,
    ResourceRecord,
    SeatRecord,
)
from artos.system import private_folder
from artos.system.closing import Closing
from artos.system.process_locks import ProcessLocks
from artos.system.shared_mutex import SharedMutex

NAME = "table"
_LOCK_SECONDS = 5.0
"""Beyond this a process that has the lock must have been stopped: changes take microseconds."""
_ENTRY, _WORD_ENTRY = struct.Struct("<2q"), struct.Struct("<3q")


class Table(Closing):
    """The mapped table. Read and change it within ``change`` only."""

    def __init__(self, path: Path, segment: Segment, locks: ProcessLocks) -> None:
        self.path, self.locks = path, locks
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
        self._live: dict[int, int] = {}
        self._seen = -1

    @classmethod
    def open(cls, folder: Path, *, create: bool = True) -> Table:
        """The table in ``folder``, made if need be.

        Raises:
            FileNotFoundError: there is none and ``create`` is false.
            PoolVersion: it is of another version, and in use.
            NotOurs: the folder is another user's.
            ShmTooSmall: there is no room for it.
        """
        while True:
            try:
                if create:
                    prepare(folder)
                    _make(folder)
                check(folder)
                return cls._attach(folder / NAME)
            except FileNotFoundError:  # the last member has just left
                if not create:
                    raise

    @classmethod
    def _attach(cls, path: Path) -> Table:
        locks = ProcessLocks.of(path)
        try:
            _check_version(path, locks)
            return cls(path, Segment.over(path, locks.fileno()), locks)
        except BaseException:
            locks.close()
            raise

    def change(self) -> AbstractContextManager[None]:
        """Have the lock; what is changed meanwhile becomes true as a whole at the end, or not.

        Raises:
            PoolStuck: another process keeps the lock.
        """
        return _Change(self)

    def begin(self) -> None:
        """See ``change``."""
        if not self._mutex.acquire(_LOCK_SECONDS):
            raise PoolStuck(str(self.path), _LOCK_SECONDS, _users(self.locks))
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
        if not self.locks.is_of(self.path):
            return  # somebody has removed it already, and the folder may have another one by now
        folder = self.path.parent
        for each in folder.iterdir():
            if each != self.path:  # left by the dead
                each.unlink(missing_ok=True)
        self.path.unlink()
        if not is_shared(folder):
            with suppress(OSError):  # the next pool may have begun there
                folder.rmdir()

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
        length = self._words[records.JOURNAL_AT // WORD]
        if not length:
            return
        at, end = records.JOURNAL_START, records.JOURNAL_START + length
        while at < end:
            to, size = _ENTRY.unpack(self._memory[at : at + _ENTRY.size])
            new = bytes(self._memory[at + _ENTRY.size : at + _ENTRY.size + size])
            if size == WORD:  # in one piece: it may be read at any time
                ordered()
                self._words[to // WORD] = int.from_bytes(new, "little", signed=True)
            else:
                self._memory[to : to + size] = new
            at += _ENTRY.size + size
        ordered()
        self._words[records.JOURNAL_AT // WORD] = 0

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
        self._table.end(keep=kind is None)


def _make(folder: Path) -> None:
    """Make an empty table unless there is one: complete before anybody can see it."""
    if (folder / NAME).exists():
        return
    fresh = private_folder.fresh(folder, f"{NAME}.")
    segment = Segment.create(fresh, records.TABLE_BYTES)
    try:
        words = segment.memory[: records.MUTEX_AT].cast("q")
        words[records.VERSION_AT // WORD] = records.VERSION
        words[records.MAGIC_AT // WORD] = records.MAGIC
        SharedMutex(segment.memory, records.MUTEX_AT, create=True)
        fresh.chmod(file_mode(folder))
        with suppress(FileExistsError):
            os.link(fresh, folder / NAME)
    finally:
        fresh.unlink()


def _check_version(path: Path, locks: ProcessLocks) -> None:
    """Remove a table of another version if nobody uses it.

    Raises:
        PoolVersion: somebody does.
        FileNotFoundError: it was removed.
    """
    head = os.pread(locks.fileno(), 2 * WORD, 0)
    magic, version = struct.unpack("<2q", head) if len(head) == 2 * WORD else (0, 0)
    size = os.fstat(locks.fileno()).st_size
    if (magic, version, size) == (records.MAGIC, records.VERSION, records.TABLE_BYTES):
        return
    if users := _users(locks):
        raise PoolVersion(str(path), version, records.VERSION, users)
    path.unlink(missing_ok=True)
    raise FileNotFoundError(path)


def _users(locks: ProcessLocks) -> list[int]:
    found = (locks.holder(number) for number in range(records.MEMBERS))
    return [pid for pid in found if pid is not None]
