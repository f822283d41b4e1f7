"""Replaces files: each is whole, either old or new, even if the process is killed in between."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_durably(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Replace ``path`` with ``data`` in one step that survives a crash and a power cut.

    Its rights are ``mode``, less those that the umask takes.
    """
    with replacing(path, mode) as file:
        file.write(data)


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file to be written, which takes the place of ``path`` in one step at the end.

    It has another name in the same folder until then. It is synced and renamed, and the folder is
    synced. If anything is raised meanwhile, ``path`` is as it was, and nothing is left behind.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        draft.unlink(missing_ok=True)  # left by a process that had our id, or put there by others
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in ``folder`` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_drafts(folder: Path) -> None:
    """Delete what a writer killed in ``write_durably`` left behind. Only for the sole writer."""
    for draft in folder.glob(".*.tmp"):
        draft.unlink(missing_ok=True)
