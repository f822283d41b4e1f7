"""Unpacks archives of code, which come from a peer: all of it is checked before any is written.

``tarfile.data_filter`` checks much of this, too. It is not used: before Python 3.11.13 a link in an
archive can lead it out of its folder (CVE-2025-4517), it stops at the first fault where we name all
of them at once, and it lets pass what ``artos submit`` never writes.
"""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path, PurePosixPath

from artos.errors import Refused
from artos.system.regular_file import contents

_MOST_FILES = 20_000
_MOST_LINKS, _MOST_FOLLOWED = 1_000, 40
_LONGEST_NAME, _LONGEST_PATH = 255, 3_000  # bytes; the kernel allows 4,095 with the folder's
_DEEPEST = 64
_MOST_FAULTS = 20
_SHOWN = 100  # characters of a name in a message


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, or a link."""

    path: PurePosixPath
    content: memoryview
    """A view of the archive's bytes."""
    executable: bool = False
    target: str = ""
    """What a link leads to; "" for a file."""


def read(content: bytes) -> list[Entry]:
    """What an archive holds.

    Raises:
        Refused: it is not an archive of ours, or cannot be written as it is; lists every reason.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            members = list(islice(archive, _MOST_FILES + 1))
    # A damaged header may raise anything: ValueError, OverflowError, RecursionError, ...
    except Exception as error:
        raise Refused([f"the archive of the code is damaged: {error}"[:_SHOWN]]) from error
    if len(members) > _MOST_FILES:
        raise Refused([f"the archive has more than {_MOST_FILES:,} files"])
    if faults := list(islice(_faults(members, len(content)), _MOST_FAULTS)):
        raise Refused(faults)
    entries = []
    for member in members:
        data = memoryview(content)[member.offset_data : member.offset_data + member.size]
        target = member.linkname if member.issym() else ""
        path, executable = PurePosixPath(member.name), bool(member.mode & 0o100)
        entries.append(Entry(path, data, executable, target))
    if faults := list(islice(_conflicts(entries), _MOST_FAULTS)):
        raise Refused(faults)
    return entries


def unpack(content: bytes, folder: Path) -> None:
    """Make ``folder`` hold the content of the archive; files that are right already stay.

    A folder that is not there appears once it is complete, or not at all.

    Raises:
        Refused: as ``read``; nothing is written.
        OSError: it cannot be written; a new folder is not left half made.
    """
    entries = read(content)
    if not folder.is_dir():
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
        try:
            for entry in entries:
                _write(entry, draft)
            try:
                draft.rename(folder)
            except OSError:
                if not folder.is_dir():  # else another daemon of this user was faster
                    raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    for entry in entries:
        if not is_right(entry, folder / entry.path):
            # Written in one step: a process may be importing what was there.
            draft = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
            try:
                _write(replace(entry, path=PurePosixPath("0")), draft)
                (folder / entry.path).parent.mkdir(parents=True, exist_ok=True)
                (draft / "0").replace(folder / entry.path)
            finally:
                shutil.rmtree(draft, ignore_errors=True)


# -- checking --------------------------------------------------------------------------------------


def _faults(members: list[tarfile.TarInfo], size: int) -> Iterator[str]:
    """What is wrong with single members."""
    for member in members:
        link = _strange_link(member.linkname) if member.issym() else ""
        kind = _strange_kind(member) or link
        if why := kind or _strange_name(member.name) or _strange_size(member, size):
            yield f"the archive has {why}: {member.name[:_SHOWN]!r}"
    if sum(member.issym() for member in members) > _MOST_LINKS:
        yield f"the archive has more than {_MOST_LINKS:,} links"


def _strange_kind(member: tarfile.TarInfo) -> str:
    if member.pax_headers or member.issparse():
        return "what `artos submit` never writes"
    plain = member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issym()
    return "" if plain else "something that is not a regular file"


def _strange_name(name: str) -> str:
    path = PurePosixPath(name)
    plain = str(path) == name and path.parts and not path.is_absolute()
    if not plain or ".." in path.parts or "\0" in name:
        return "an unsafe path"
    if max(len(os.fsencode(part)) for part in path.parts) > _LONGEST_NAME:
        return f"a name of more than {_LONGEST_NAME} bytes"
    if len(os.fsencode(name)) > _LONGEST_PATH or len(path.parts) > _DEEPEST:
        return f"a path of more than {_LONGEST_PATH} bytes or {_DEEPEST} folders"
    return ""


def _strange_link(target: str) -> str:
    path = PurePosixPath(target)
    if not target or "\0" in target or len(target) > _LONGEST_PATH or len(path.parts) > _DEEPEST:
        return "a link that leads nowhere"
    return "a link out of its folder" if path.is_absolute() else ""


def _strange_size(member: tarfile.TarInfo, size: int) -> str:
    if not 0 <= member.size <= size - member.offset_data:
        return "less content than it says"
    return "a link with content" if member.issym() and member.size else ""


def _conflicts(entries: list[Entry]) -> Iterator[str]:
    """What is wrong between members."""
    links = {entry.path: entry.target for entry in entries if entry.target}
    paths = {entry.path for entry in entries}
    seen: set[PurePosixPath] = set()
    for entry in entries:
        name = repr(str(entry.path)[:_SHOWN])
        if entry.path in seen:
            yield f"the archive has {name} twice"
        seen.add(entry.path)
        for parent in paths.intersection(entry.path.parents):
            how = "writes through a link" if parent in links else "has a file in place of a folder"
            yield f"the archive {how}: {name}"
        if entry.target and (why := _leads_astray(entry.path, links)):
            yield f"the archive has a link {why}: {name} → {entry.target[:_SHOWN]!r}"


def _leads_astray(link: PurePosixPath, links: Mapping[PurePosixPath, str]) -> str:
    """Why a link, or one that it leads to, must not be followed; "" if it may be."""
    ahead, at, followed = [*reversed(link.parts)], PurePosixPath(), 0
    while ahead:
        part = ahead.pop()
        if part == ".." and not at.parts:
            return "out of its folder"
        at = at.parent if part == ".." else at / part
        if at in links:
            followed += 1
            if followed > _MOST_FOLLOWED:
                return "that leads nowhere"
            ahead += reversed(PurePosixPath(links[at]).parts)
            at = at.parent
    return ""


# -- writing ---------------------------------------------------------------------------------------


def _write(entry: Entry, folder: Path) -> None:
    path = folder / entry.path
    path.parent.mkdir(parents=True, exist_ok=True)
    if entry.target:
        path.symlink_to(entry.target)
        return
    path.write_bytes(entry.content)
    path.chmod(0o755 if entry.executable else 0o644)


def is_right(entry: Entry, path: Path) -> bool:
    """Whether what is at ``path`` is what the archive has there."""
    if entry.target:
        return path.is_symlink() and str(path.readlink()) == entry.target
    return not path.is_symlink() and path.is_file() and contents(path) == entry.content
