"""The user's code as archives: packed to travel to other nodes, kept and unpacked there.

An archive is named by its SHA-256, and the same files give the same bytes on any machine at any
time. ``artos.system.unpack`` takes archives apart.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import stat
import tarfile
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from pathspec import GitIgnoreSpec

from artos.errors import Refused
from artos.system.by_age import by_age
from artos.system.durable import write_durably
from artos.system.private_folder import keep
from artos.system.regular_file import contents, opened
from artos.system.unpack import is_right, read, unpack

IGNORE_FILE = ".artosignore"
LIMIT_MB = 64
PIECE = 1 << 20
"""Bytes of an archive that are sent at once."""
PACKAGES_FILE = ".artos-packages.txt"
"""The list of packages that travels with a run, as pip reads it."""
_ALWAYS = (
    ".git", ".hg", ".svn", ".venv", "venv", "__pycache__", "*.pyc", "*.egg-info", "node_modules",
    ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".ipynb_checkpoints",
    PACKAGES_FILE,  # what travels with `artos submit --packages` only
    ".head", "*.key_secret*",  # the state of a head that runs here, and secret keys
)  # fmt: skip
_HIDDEN = ".*/"
"""Folders of tools: of those that are not in ``_ALWAYS`` the user may take some back."""
_OTHERS = ("run.lock", "pyvenv.cfg", "conda-meta")
"""What a folder has that is no code: results of a run, environments of Python by any name."""
NOTHING: Mapping[str, bytes] = MappingProxyType({})
_NAME = re.compile(r"[0-9a-f]{64}")
_SHOWN = 5
_MOST = 16
_UNUSED = 30 * 86_400.0
"""Where there are more than ``_MOST`` archives, those unused for this many seconds are removed."""


# -- packing ---------------------------------------------------------------------------------------


def pack(
    folder: Path, limit_mb: float = LIMIT_MB, more: Mapping[str, bytes] = NOTHING
) -> tuple[str, bytes]:
    """Name and bytes of a folder's archive, without what ``.artosignore`` there lists.

    ``more`` are files by name that travel with it, and that the folder has not.

    That file is read as a ``.gitignore`` is; ``#`` after a space begins a comment, too. Run
    folders, caches, version control, environments of Python and secret keys never travel; other
    hidden folders do where the list takes them back (``!.assets/``).

    Raises:
        Refused: the folder is too large (lists the largest of what is in it), has links that lead
            out of it, special files, or entries that no node would unpack (it names all faults at
            once), or something in it cannot be read.
    """
    try:
        paths = sorted(_kept(folder, _ignored(folder), PurePosixPath()))
        faults = [*_unfit(folder, paths)]
        sizes = {path: (folder / path).lstat().st_size for path in paths}
        added = sum(map(len, more.values()))
        if (total := sum(sizes.values(), added)) > limit_mb * 1e6:
            faults.append(
                f"{folder} holds {total / 1e6:,.1f} MB, {limit_mb:g} MB may be sent to the nodes: "
                f"list what is not needed there in {folder / IGNORE_FILE}, one pattern a line; the "
                f"largest are {', '.join(_largest(sizes))}"
            )
        if faults:
            raise Refused(faults)
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for path in paths:
                entry = tarfile.TarInfo(str(path))  # without owner or time: neither is code
                found = (folder / path).lstat()
                if stat.S_ISLNK(found.st_mode):
                    entry.type, entry.linkname = tarfile.SYMTYPE, str((folder / path).readlink())
                    archive.addfile(entry)
                    continue
                mode = 0o755 if found.st_mode & 0o100 else 0o644
                _add(archive, entry, contents(folder / path), mode)
            for name, data in sorted(more.items()):
                _add(archive, tarfile.TarInfo(name), data, 0o644)
    except OSError as error:
        what = f"{error.filename} cannot be read ({error.strerror})"
        raise Refused([f"{what}: list it in {IGNORE_FILE}"]) from error
    content = buffer.getvalue()
    read(content)
    return name_of(content), content


def _largest(sizes: Mapping[PurePosixPath, int]) -> Iterator[str]:
    """What takes most of the room, as patterns of a list: folders and files, with their sizes."""
    found: dict[str, list[int]] = {}
    for path, size in sizes.items():
        found.setdefault(f"/{path.parts[0]}{'/' * (len(path.parts) > 1)}", []).append(size)
    for name, of in sorted(found.items(), key=lambda each: -sum(each[1]))[:_SHOWN]:
        files = f"{len(of):,} file{'s' * (len(of) > 1)}, " * name.endswith("/")
        yield f"{name} ({files}{sum(of) / 1e6:,.1f} MB)"


def _add(archive: tarfile.TarFile, entry: tarfile.TarInfo, data: bytes, mode: int) -> None:
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))


def name_of(content: bytes) -> str:
    """The name of an archive: its SHA-256 in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def _ignored(folder: Path) -> GitIgnoreSpec:
    try:
        lines = contents(folder / IGNORE_FILE).decode().splitlines()
    except FileNotFoundError:
        lines = []
    except UnicodeDecodeError as error:
        raise Refused([f"{folder / IGNORE_FILE} cannot be read: it is not UTF-8"]) from error
    # Ours come last: no ``!`` of the user's sends a secret key along.
    listed = (line.partition(" #")[0] for line in lines)
    return GitIgnoreSpec.from_lines([_HIDDEN, *listed, *_ALWAYS])


def _kept(folder: Path, ignored: GitIgnoreSpec, inside: PurePosixPath) -> Iterator[PurePosixPath]:
    """Paths below ``inside`` that travel; ignored folders are not entered."""
    with os.scandir(folder / inside) as entries:
        for entry in entries:
            path, is_folder = inside / entry.name, entry.is_dir(follow_symlinks=False)
            if ignored.match_file(f"{path}{'/' * is_folder}"):
                continue
            if not is_folder:
                yield path
            elif not any((folder / path / name).exists() for name in _OTHERS):
                yield from _kept(folder, ignored, path)


def _unfit(folder: Path, paths: list[PurePosixPath]) -> Iterator[str]:
    root = folder.resolve()
    for path in paths:
        mode = (folder / path).lstat().st_mode
        if stat.S_ISLNK(mode):
            target = (folder / path).readlink()
            if target.is_absolute() or not (folder / path).resolve().is_relative_to(root):
                yield f"{path} links to {target}, out of the folder: copy it, or ignore it"
        elif not stat.S_ISREG(mode):
            yield f"{path} is not a regular file: list it in {IGNORE_FILE}"


# -- keeping ---------------------------------------------------------------------------------------


def holds_just_its_archive(folder: Path) -> bool:
    """Whether a folder, or one that it is in, was unpacked by ``Archives`` and is as it was then.

    What Python compiled there is removed: Python would run that instead of the source.
    """
    root = next((each for each in (folder, *folder.parents) if _NAME.fullmatch(each.name)), None)
    if root is None:
        return False
    try:
        if not (content := Archives(root.parent).content(root.name)):
            return False
        for cache in sorted(root.rglob("__pycache__")):
            shutil.rmtree(cache)
        entries = {entry.path: entry for entry in read(content)}
        found = {path.relative_to(root): path for path in root.rglob("*")}
        theirs = {path for path, each in found.items() if each.is_symlink() or not each.is_dir()}
        return {*map(Path, entries)} == theirs and all(
            is_right(entry, root / path) for path, entry in entries.items()
        )
    except (OSError, Refused):
        return False


class Archives:
    """A folder of archives by name. Several daemons of one user may share it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __contains__(self, name: str) -> bool:
        return self._file(name).is_file()

    def content(self, name: str) -> bytes:
        """The archive's bytes; b"" if it is not here, or damaged (then it is removed)."""
        try:
            content = contents(self._file(name))
        except FileNotFoundError:
            return b""
        if name_of(content) != name:
            self._file(name).unlink(missing_ok=True)
            return b""
        return content

    def piece(self, name: str, offset: int) -> tuple[bytes, int]:
        """At most ``PIECE`` bytes of an archive from ``offset`` on, and how many it has in all.

        (b"", 0) if it cannot be read. Who has all pieces has to see whether it is damaged.
        """
        try:
            with opened(self._file(name)) as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(min(offset, size))
                return file.read(PIECE), size
        except OSError:
            return b"", 0

    def put(self, name: str, content: bytes, needed: Collection[str] = ()) -> None:
        """Keep an archive, even through a power cut; those unused for longest make room for it.

        Those that are ``needed`` stay.

        Raises:
            Refused: the content is not what the name says.
            OSError: the archive cannot be written; nothing of it is kept.
        """
        if name_of(content) != name:
            raise Refused([f"the archive {name[:12]} is damaged: submit it again"])
        keep(self.folder)
        write_durably(self._file(name), content)
        for used_at, path in by_age(self.folder.glob("[!.]*.tar"))[:-_MOST]:
            if time.time() - used_at > _UNUSED and path.stem not in needed:
                shutil.rmtree(path.with_suffix(""), ignore_errors=True)
                path.unlink(missing_ok=True)

    def unpacked(self, name: str) -> Path:
        """The folder with the content of the archive, checked file by file.

        Raises:
            Refused: the archive is not here, is damaged or unsafe.
            OSError: the folder cannot be written.
        """
        if not (content := self.content(name)):
            raise Refused([f"the archive {name[:12]} is not here or damaged: submit it again"])
        folder = self.folder / name
        unpack(content, folder)
        self._file(name).touch()
        return folder

    def _file(self, name: str) -> Path:
        # The name comes from a peer: it must not act as a path.
        return self.folder / f"{Path(name).name}.tar"
