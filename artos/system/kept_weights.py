"""Weights of language models in the user's cache: a folder by checksum, whole once it is there.

Each may take gigabytes. So what a killed process has not finished is removed, and so is what nobody
has used for long: by whoever keeps other weights, and by ``artos clean``.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from artos.errors import DeadlineExceeded
from artos.system import private_folder
from artos.system.by_age import by_age
from artos.system.durable import sync_folder
from artos.system.locks import FileLock
from artos.system.user_cache import user_cache

_PATIENCE = 600.0
"""Seconds that another process of the same weights has for writing them."""
_DAY = 86_400.0
_UNUSED, _UNLOCKED = 30 * _DAY, _DAY
_NAME = re.compile(r"\.?[0-9a-f]+(-[0-9a-f]+)?")
"""What we name folders there: users may keep others beside them."""


def _weights() -> Path:
    return user_cache() / "weights"


def _lock_of(folder: Path) -> Path:
    """That of weights, or of a draft of them, ``.CHECKSUM``."""
    return folder.with_name(f"{folder.name.removeprefix('.')}.lock")


def kept(checksum: str) -> Path:
    """The folder of these weights, whether or not it is there."""
    return _weights() / checksum


def used(folder: Path) -> None:
    """Note that somebody uses it, if that can be noted."""
    with suppress(OSError):  # e.g. read-only, and then nobody can remove it either
        os.utime(folder)


@contextmanager
def draft_of(folder: Path) -> Iterator[Path | None]:
    """A folder that is to be made and written to, and is ``folder`` at the end.

    None if it is there by now: one process writes it, others wait. If anything is raised meanwhile,
    nothing is left behind. What is of no more use is removed first.

    Raises:
        NotOurs: the cache may be another user's.
        OSError: it cannot be written to.
        DeadlineExceeded: another process has not finished it.
    """
    private_folder.keep(folder.parent)
    tidy()
    lock = FileLock.take(_lock_of(folder), seconds=_PATIENCE)
    if lock is None:
        raise DeadlineExceeded(f"another process, which writes {folder}", _PATIENCE)
    with lock:
        if folder.is_dir():
            yield None
            return
        draft = folder.with_name(f".{folder.name}")
        private_folder.remove(draft)  # of one that was killed as we waited
        try:
            yield draft
            draft.rename(folder)
        finally:
            private_folder.remove(draft)
        sync_folder(folder.parent)


def tidy() -> list[Path]:
    """Remove what nobody finishes, and what nobody has used for 30 days; returns what it was."""
    if private_folder.planted(_weights()) or not private_folder.is_ours(_weights()):
        return []  # or what is removed may be somebody's
    found = [path for path in _weights().iterdir() if _NAME.fullmatch(path.name)]
    return [path for path in found if path.is_dir() and _removed(path)]


def _removed(folder: Path) -> bool:
    """Remove it, unless a process writes it, or has just used it."""
    try:
        lock = FileLock.take(_lock_of(folder))
    except OSError:  # it may not be written to
        return False
    if lock is None:
        return False
    within = _UNUSED
    if folder.name.startswith("."):  # one with more to its name is of a release without locks
        within = _UNLOCKED if "-" in folder.name else 0.0
    with lock:
        is_used = any(time.time() - at <= within for at, _ in by_age([folder]))
        removed = not is_used and private_folder.remove(folder)
        if not kept(folder.name.removeprefix(".")).exists():
            _lock_of(folder).unlink(missing_ok=True)
    return removed
