"""The archives of user code that a node has: as they came, and unpacked beside that."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from artos.errors import Refused
from artos.system.archive import name_of
from artos.system.private_folder import keep
from artos.system.unpack import unpack

_MOST = 16
_UNUSED = 30 * 86_400.0
"""Seconds; of more than ``_MOST`` archives, those unused for so long are removed."""


class Archives:
    """A folder of archives by name. Several daemons of one user may share it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __contains__(self, name: str) -> bool:
        return self._file(name).is_file()

    def content(self, name: str) -> bytes:
        """The archive's bytes, b"" if it is not here or damaged (then it is removed)."""
        try:
            content = self._file(name).read_bytes()
        except FileNotFoundError:
            return b""
        if name_of(content) != name:
            self._file(name).unlink(missing_ok=True)
            return b""
        return content

    def put(self, name: str, content: bytes) -> None:
        """Keep an archive; the ones that were not used for longest make room.

        Raises:
            Refused: the content is not what the name says.
            OSError: it cannot be kept; nothing of it is.
        """
        if name_of(content) != name:
            raise Refused([f"the archive {name[:12]} is damaged: submit it again"])
        keep(self.folder)
        draft = self._file(f".{name}.{os.getpid()}")
        try:
            draft.write_bytes(content)
            draft.replace(self._file(name))
        finally:
            draft.unlink(missing_ok=True)
        self._make_room()

    def unpacked(self, name: str) -> Path:
        """The folder that holds what the archive holds, checked file by file.

        Raises:
            Refused: the archive is not here, damaged or unsafe.
            OSError: it cannot be written.
        """
        if not (content := self.content(name)):
            raise Refused([f"the archive {name[:12]} is not here or damaged: submit it again"])
        folder = self.folder / name
        unpack(content, folder)
        self._file(name).touch()
        return folder

    def _file(self, name: str) -> Path:
        # The name comes from a peer: whatever it is, it is no path.
        return self.folder / f"{Path(name).name}.tar"

    def _make_room(self) -> None:
        used = sorted(self.folder.glob("[!.]*.tar"), key=lambda path: -path.stat().st_mtime)
        for path in used[_MOST:]:
            if time.time() - path.stat().st_mtime > _UNUSED:
                shutil.rmtree(path.with_suffix(""), ignore_errors=True)
                path.unlink(missing_ok=True)
