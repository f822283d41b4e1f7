"""The files of a run, for its user to copy: which there are, and pieces of them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path, PurePosixPath

from artos.errors import Refused
from artos.protocol.control import FilePiece
from artos.system.regular_file import opened

MOST_OF_A_FILE = 1 << 20
"""Most bytes of a file in one answer."""
_MOST_FILES = 10_000
_HIDDEN = ("run.lock", "live.json")
"""What is about the run's process, not about the run."""


def listed(folder: Path) -> dict[str, tuple[int, int]]:
    """Size in bytes and time of change in ns of each file, by its path within the folder.

    Links, drafts (whose names begin with a dot) and what belongs to the run's process are left out.

    Raises:
        Refused: the run has no folder yet, or one with too many files.
    """
    if not folder.is_dir():
        raise Refused([f"run {folder.name} has no files yet"])
    found = dict(islice(_below(folder, PurePosixPath()), _MOST_FILES + 1))
    if len(found) > _MOST_FILES:  # whoever counted them all would keep the head from its work
        raise Refused([f"run {folder.name} has more than {_MOST_FILES} files: no more are sent"])
    return found


def _below(folder: Path, within: PurePosixPath) -> Iterator[tuple[str, tuple[int, int]]]:
    with os.scandir(folder / within) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name.startswith(".") or entry.name in _HIDDEN:
                continue
            try:
                about = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # it has just been replaced
                continue
            if stat.S_ISDIR(about.st_mode):
                yield from _below(folder, within / entry.name)
            elif stat.S_ISREG(about.st_mode):
                yield str(within / entry.name), (about.st_size, about.st_mtime_ns)


def piece(folder: Path, name: str, offset: int) -> FilePiece:
    """Bytes of a listed file from ``offset`` on, at most ``MOST_OF_A_FILE``; none at its end.

    Raises:
        Refused: there is no such file.
    """
    parts = PurePosixPath(name).parts
    if not parts or any(part.startswith(".") or part == "/" or part in _HIDDEN for part in parts):
        raise Refused([f"{name!r} is no file of run {folder.name}"])
    within = folder.joinpath(*parts)
    try:
        linked = any(each.is_symlink() for each in (within, *within.parents[: len(parts) - 1]))
        if not linked:
            with opened(within) as file:
                about = os.fstat(file.fileno())
                file.seek(offset)
                content = file.read(MOST_OF_A_FILE)
                return FilePiece(about.st_size, about.st_mtime_ns, content=content)
    except OSError as error:
        raise Refused([f"{name} of run {folder.name}: {error.strerror}"]) from error
    raise Refused([f"{name!r} is no file of run {folder.name}"])
