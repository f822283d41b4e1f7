"""The file of a pool's table: made whole, of one version, removed once it is of no use."""

from __future__ import annotations

import os
import stat
import struct
from contextlib import suppress

from artos.buffer.layout import WORD
from artos.buffer.segment import Segment
from artos.errors import NotOurs
from artos.pool import records
from artos.pool.faults import PoolDamaged, PoolVersion
from artos.pool.folder import TABLE, PoolFolder
from artos.system import private_folder
from artos.system.process_locks import ProcessLocks
from artos.system.shared_mutex import SharedMutex


def make(folder: PoolFolder) -> None:
    """Make an empty table unless there is one: complete before any process can see it."""
    with suppress(FileNotFoundError), folder.found(TABLE):
        return
    fresh = private_folder.fresh(folder.path, f"{TABLE}.")
    segment = Segment.create(
        fresh, records.TABLE_BYTES, mode=folder.file_mode, folder=folder.fileno()
    )
    try:
        words = segment.memory[: records.MUTEX_AT].cast("q")
        words[records.VERSION_AT // WORD] = records.VERSION
        words[records.MAGIC_AT // WORD] = records.MAGIC
        SharedMutex(segment.memory, records.MUTEX_AT, create=True)
        here = folder.fileno()
        with suppress(FileExistsError):
            os.link(fresh.name, TABLE, src_dir_fd=here, dst_dir_fd=here, follow_symlinks=False)
    finally:
        folder.unlink(fresh.name)


def locks_of(folder: PoolFolder) -> ProcessLocks:
    """The locks of the table in a folder.

    Raises:
        PoolDamaged: what has its name there is not a file of this pool.
        FileNotFoundError: there is none.
    """
    with folder.found(TABLE) as found:
        if why := folder.foreign(found, stat.S_IFREG):
            raise PoolDamaged(str(folder.path / TABLE), why)
        return ProcessLocks.over(found)


def check_version(folder: PoolFolder, locks: ProcessLocks) -> None:
    """Make sure that the table is of this version; one of another version is removed if unused.

    Raises:
        PoolVersion: it is of another version, and in use.
        PoolDamaged: it is no table.
        FileNotFoundError: it was removed.
    """
    path, (magic, version), size = folder.path / TABLE, _head(locks), _size(locks)
    if (magic, version, size) == (records.MAGIC, records.VERSION, records.TABLE_BYTES):
        return
    users = users_of(locks)
    if magic != records.MAGIC:
        raise PoolDamaged(str(path), "it does not begin as a table does", users)
    if version == records.VERSION:
        raise PoolDamaged(str(path), f"it has {size} bytes, not {records.TABLE_BYTES}", users)
    if users or not locks.take_all(records.MEMBERS):
        raise PoolVersion(str(path), version, records.VERSION, users)
    if locks.is_of(TABLE, folder.fileno()):
        folder.clear()
    raise FileNotFoundError(path)


def discard(folder: PoolFolder) -> None:
    """Remove a damaged table and all wake-ups; a process that joins meanwhile makes a new one.

    Raises:
        PoolDamaged: living processes use it.
        NotOurs: nothing shows that it was a pool's.
        FileNotFoundError: there is none.
    """
    path = folder.path / TABLE
    with folder.found(TABLE) as found:
        kind = stat.S_IFMT(os.fstat(found).st_mode)
        if kind == stat.S_IFDIR:
            raise NotOurs(str(path), "it is a folder")
        if kind != stat.S_IFREG:  # a link is removed, not followed
            folder.clear()
            return
        with ProcessLocks.over(found) as locks:
            magic, _ = _head(locks)
            is_table = magic == records.MAGIC or _size(locks) in (0, records.TABLE_BYTES)
            if not (folder.is_default or is_table):
                raise NotOurs(str(path), "it is no table of a pool")
            if not locks.take_all(records.MEMBERS):
                raise PoolDamaged(str(path), "processes still use it", users_of(locks))
            if _size(locks) > records.CLOSED_AT:  # a process that has it open opens it again
                os.pwrite(locks.fileno(), b"\1", records.CLOSED_AT)
            if locks.is_of(TABLE, folder.fileno()):
                folder.clear()


def _head(locks: ProcessLocks) -> tuple[int, int]:
    head = os.pread(locks.fileno(), 2 * WORD, 0)
    magic, version = struct.unpack("<2q", head) if len(head) == 2 * WORD else (0, 0)
    return magic, version


def _size(locks: ProcessLocks) -> int:
    return os.fstat(locks.fileno()).st_size


def users_of(locks: ProcessLocks) -> list[int]:
    """The processes that are members, by the locks that they hold on a table."""
    found = (locks.holder(number) for number in range(records.MEMBERS))
    return [pid for pid in found if pid is not None]
