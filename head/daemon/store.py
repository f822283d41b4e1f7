"""The file in which a head keeps its state: it survives the process and a power cut."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from artos.errors import Refused
from artos.specs.unreadable import UNREADABLE
from artos.system.closing import Closing
from artos.system.durable import remove_drafts, sync_folder
from artos.system.regular_file import contents
from head.daemon import rows
from head.daemon.run import State
from head.daemon.unsaved import Unsaved


class Store(Closing):
    """The file ``state.sqlite`` in a folder that no other process uses; call ``load`` first.

    Each ``save`` is one transaction that survives this process and a power cut.
    """

    def __init__(self, folder: Path) -> None:
        self._file, self._old = folder / "state.sqlite", folder / "state.json"
        self._db: sqlite3.Connection | None = None
        self._first = Unsaved()

    def load(self) -> State:
        """The state that the last head saved; an older ARTOS saved it in ``state.json``.

        Raises:
            Refused: the file is damaged, or another process has opened it.
        """
        try:
            if not self._file.exists():
                return self._load_old()
            return rows.read(self._open())
        except sqlite3.OperationalError as error:
            raise Refused([f"{self._file} cannot be read: {error}"]) from error
        except (sqlite3.DatabaseError, ValueError, *UNREADABLE) as error:
            raise _damaged(self._file, error) from error

    def _load_old(self) -> State:
        try:
            state = msgspec.json.decode(contents(self._old), type=State)
        except FileNotFoundError:
            state = State()
        except (OSError, *UNREADABLE) as error:
            raise _damaged(self._old, error) from error
        self._first = rows.all_of(state)
        return state

    def _open(self) -> sqlite3.Connection:
        if not self._file.stat().st_size:  # SQLite would take it for a new one
            raise ValueError("it is empty")
        # One thread at a time, but the one that closes a head need not be the one that ran it.
        self._db = db = sqlite3.connect(self._file, isolation_level=None, check_same_thread=False)
        # Exclusive: a write-ahead log then needs no shared memory, which network file systems lack.
        # Full, and a write-ahead log: a transaction survives a power cut with one sync, where a
        # rollback journal needs several.
        for setting in ("locking_mode = EXCLUSIVE", "synchronous = FULL", "journal_mode = WAL"):
            db.execute(f"PRAGMA {setting}")
        self._old.unlink(missing_ok=True)
        return db

    def _create(self) -> sqlite3.Connection:
        # The file is whole from the first moment, so one without content is known to be damaged.
        remove_drafts(self._file.parent)
        draft = self._file.with_name(f".{self._file.name}.tmp")
        with closing(sqlite3.connect(draft)) as db, db:
            db.execute(rows.CREATE)
            rows.put(db, self._first)
        # The log of a file that was moved away would be taken for the log of this one.
        self._file.with_name(f"{self._file.name}-wal").unlink(missing_ok=True)
        draft.replace(self._file)
        sync_folder(self._file.parent)
        return self._open()

    def save(self, changes: Unsaved) -> None:
        """Save all of these rows or, after an error, none of them.

        Raises:
            OSError: the disk is full, or cannot be written.
            ValueError: a row holds what JSON does not.
        """
        if not (changes.rows or changes.gone):
            return
        try:
            with self._db or self._create() as db:
                db.execute("BEGIN")
                rows.put(db, changes)
        except sqlite3.Error as error:
            raise OSError(str(error)) from error
        changes.clear()

    def close(self) -> None:
        """Close the file. May be called twice."""
        if self._db is not None:
            self._db.close()


def _damaged(file: Path, error: Exception) -> Refused:
    why = f"{file} is damaged ({error}): move it away; the head then forgets its runs"
    return Refused([why])
