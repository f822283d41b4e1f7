"""A pool's folder: its user's own, or one that an administrator made for a group of users.

In a group's folder others may put anything under any name, and in `/dev/shm` a neighbour may make
a folder before we do. So it is opened once and checked by its descriptor; whatever lies in it is
opened by name relative to that descriptor, never through a link, and checked once it is open.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from artos.errors import NotOurs
from artos.system import private_folder
from artos.system.account import root_user
from artos.system.closing import Closing
from artos.system.shm import named_root, shm_root

VARIABLE = "ARTOS_POOL"
"""Names the folder of a pool, as an absolute path."""
TABLE = "table"
_THEN = f"have {VARIABLE} name a folder that is empty, or still to be made, by its absolute path"
_MADE_HERE = re.compile(rf"{TABLE}(\.[0-9a-f]{{16}})?|(?:wake|bell)\.\d{{1,3}}")
"""Names of files that pools make; older ones called a wake-up a bell."""
_MADE = stat.S_ISVTX
"""The sticky bit: it means nothing in a folder of one user, so it marks those that a pool made."""
_SHOWN = 3
_KINDS = {
    stat.S_IFREG: "file", stat.S_IFIFO: "FIFO", stat.S_IFLNK: "link", stat.S_IFDIR: "folder",
    stat.S_IFSOCK: "socket",
}  # fmt: skip


def pool_folder() -> Path:
    """The pool's folder: the one that ``ARTOS_POOL`` names, else this user's in ``shm_root``."""
    return Path(os.environ.get(VARIABLE) or _default(shm_root()))


def _default(root: Path) -> Path:
    return root / f"artos-pool-{os.geteuid()}"


def named_faults() -> Iterator[str]:
    """Why the folder that ``ARTOS_POOL`` names cannot hold a pool; nothing is made."""
    if not os.environ.get(VARIABLE):
        return
    folder = pool_folder()
    try:
        if os.path.lexists(folder) or not folder.is_absolute():
            PoolFolder.open(folder, create=False).close()
            if not os.access(folder, os.W_OK) and os.path.lexists(folder):
                raise NotOurs(str(folder), "it cannot be written", _THEN)
        elif not os.access(folder.parent, os.W_OK | os.X_OK):
            raise NotOurs(str(folder), f"it cannot be made in {folder.parent}", _THEN)
    except FileNotFoundError:
        return  # the last member of its pool has just removed it
    except OSError as error:
        yield f"{VARIABLE}: {error}"


def wake_up_name(member: int) -> str:
    """The name of the file by which a member is woken."""
    return f"wake.{member}"


class PoolFolder(Closing):
    """An open folder: it stays this one, whatever happens to its name."""

    def __init__(self, path: Path, descriptor: int) -> None:
        """Use ``open``."""
        self.path, self._descriptor = path, descriptor
        about = os.fstat(descriptor)
        self.group = about.st_gid if about.st_mode & stat.S_IWGRP else None
        """The group that shares it; None if it is one user's."""

    @classmethod
    def open(cls, path: Path, *, create: bool = True) -> PoolFolder:
        """Open it, made if need be, and make sure that no one else can enter.

        A group's is one that root, or this user, made with the rights 2770, and that was named:
        another user's folder is refused, whatever its rights.

        Raises:
            NotOurs: it is another user's, others may enter it, it holds what no pool has made, or
                it cannot be made.
            FileNotFoundError: there is none and ``create`` is false, or the last member has just
                removed it.
        """
        if not path.is_absolute():
            raise NotOurs(str(path), "its path is not absolute", _THEN)
        if why := private_folder.planted(path):
            raise NotOurs(str(path), why)
        if create:
            # `exist_ok` looks a second time: by then a leaving member may have removed it.
            try:
                path.mkdir(mode=0o700 | _MADE)
            except FileExistsError:
                pass
            except FileNotFoundError:
                raise NotOurs(str(path), f"there is no {path.parent}", _THEN) from None
            except OSError as error:
                raise NotOurs(str(path), f"it cannot be made ({error.strerror})", _THEN) from error
        folder = cls(path, private_folder.open_folder(path))
        try:
            folder._check()
        except BaseException:
            folder.close()
            raise
        return folder

    def _check(self) -> None:
        if why := self._strange_rights():
            raise NotOurs(str(self.path), why)
        if strange := sorted(name for name in self._names() if not _MADE_HERE.fullmatch(name)):
            more = ", ..." if len(strange) > _SHOWN else ""
            held = f"it holds what no pool has made ({', '.join(strange[:_SHOWN])}{more})"
            raise NotOurs(str(self.path), held, _THEN)

    def _strange_rights(self) -> str:
        about = os.fstat(self._descriptor)
        owner, rights = about.st_uid, stat.S_IMODE(about.st_mode)
        if self.group is None and not rights & stat.S_IWOTH:
            return "" if owner == os.geteuid() else f"it belongs to user {owner}"
        if rights & stat.S_IRWXO:
            return f"everybody may enter it, not just its group (chmod o= {self.path})"
        if owner not in (root_user(), os.geteuid()):
            return f"it belongs to user {owner}, and a group's pool must be root's"
        if not rights & stat.S_ISGID:
            return f"its group may write to it, and it is no pool for that (chmod 2770 {self.path})"
        if self.is_default:
            return f"a group shares it, so it must be named ({VARIABLE}={self.path})"
        return ""

    @property
    def is_default(self) -> bool:
        """Whether it is used without having been named."""
        return self.path == _default(named_root())

    def _names(self) -> list[str]:
        return os.listdir(self._descriptor)  # noqa: PTH208 (of a descriptor)

    def fileno(self) -> int:
        """Its descriptor, -1 once closed."""
        return self._descriptor

    @property
    def file_mode(self) -> int:
        """The rights of files in it."""
        return 0o600 if self.group is None else 0o660

    @contextmanager
    def found(self, name: str) -> Iterator[int]:
        """What has that name, as a descriptor that opens nothing (``O_PATH``) until ``reopened``.

        Raises:
            FileNotFoundError: there is nothing.
        """
        flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=self._descriptor)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def foreign(self, found: int, kind: int) -> str:
        """Why what was ``found`` is not of this pool, or not of that ``kind`` (``stat.S_IFMT``)."""
        about = os.fstat(found)
        if stat.S_IFMT(about.st_mode) != kind:
            return f"it is a {_KINDS.get(stat.S_IFMT(about.st_mode), 'device')}"
        if self.group is None:
            ours, others = about.st_uid == os.geteuid(), stat.S_IWGRP | stat.S_IWOTH
        else:
            ours, others = about.st_gid == self.group, stat.S_IRWXO
        rights = stat.filemode(about.st_mode)
        if ours and not about.st_mode & others:
            return ""
        return f"it belongs to user {about.st_uid} with the rights {rights}"

    def unlink(self, name: str) -> None:
        """Remove an entry, if there is one."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)

    def clear(self) -> None:
        """Remove what pools have made here, the table last; and the folder, if a pool made it."""
        for name in sorted(self._names()):  # wake-ups and drafts of processes that were killed
            if name != TABLE and _MADE_HERE.fullmatch(name):
                self.unlink(name)
        self.unlink(TABLE)
        self.leave()

    def leave(self) -> None:
        """Remove the folder if it is empty and a pool has made it."""
        made = self.is_default or os.fstat(self._descriptor).st_mode & _MADE
        if made and self.group is None:
            with suppress(OSError):  # the next pool may have begun there
                self.path.rmdir()

    def close(self) -> None:
        """Close the descriptor; twice is fine."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


def reopened(found: int, flags: int) -> int:
    """Open what was ``found``, and nothing that has taken its place since.

    Raises:
        OSError: it cannot be opened in that way.
    """
    return os.open(f"/proc/self/fd/{found}", flags | os.O_CLOEXEC)
