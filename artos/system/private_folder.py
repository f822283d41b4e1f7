"""Folders of ours in places where others may write, such as /dev/shm, /tmp or a shared disk.

There another user can put a link or a folder under any name that can be guessed, and so choose what
we write or delete. So names are random, a new folder must not have existed, and an existing folder
is opened without following links and checked before it is used or removed.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from artos.errors import NotOurs
from artos.system.account import file_user, root_user

_RANDOM = 8
"""Bytes of a name that cannot be guessed."""
_HEX = rf"[0-9a-f]{{{2 * _RANDOM}}}"
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def fresh(parent: Path, prefix: str) -> Path:
    """A path in ``parent`` that cannot be guessed; nothing is made."""
    return parent / f"{prefix}{secrets.token_hex(_RANDOM)}"


def is_fresh(path: Path, prefix: str) -> bool:
    """Whether ``fresh`` makes such names: what users named themselves is not ours to remove."""
    return re.fullmatch(rf"{re.escape(prefix)}.*{_HEX}", path.name) is not None


def make(parent: Path, prefix: str) -> Path:
    """Make a folder in ``parent`` whose name cannot be guessed, for us alone; returns its path.

    Raises:
        OSError: it cannot be made.
    """
    path = fresh(parent, prefix)
    path.mkdir(mode=0o700)
    return path


def keep(path: Path) -> Path:
    """Make ``path`` for us alone, with all folders above it, unless it is ours already; returns it.

    Raises:
        NotOurs: another user has made it, or a folder above it.
        OSError: it cannot be made.
    """
    if why := planted(path):
        raise NotOurs(str(path), why)
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    os.close(open_own(path))
    return path


def open_own(path: Path) -> int:
    """A descriptor of a folder of ours; it stays that folder whatever its name becomes.

    Raises:
        NotOurs: it is a link or a file, belongs to another user, or others may write to it.
        FileNotFoundError: there is no such folder.
    """
    descriptor = open_folder(path)
    about = os.fstat(descriptor)
    # The user's own group may write: many systems give each user a group of their own, and a umask
    # that lets it.
    others = stat.S_IWOTH if about.st_gid == os.getegid() else stat.S_IWOTH | stat.S_IWGRP
    if about.st_uid == file_user() and not about.st_mode & others:
        return descriptor
    os.close(descriptor)
    mode, owner = stat.filemode(about.st_mode), about.st_uid
    raise NotOurs(str(path), f"it belongs to user {owner} with the rights {mode}")


def open_folder(path: Path) -> int:
    """A descriptor of a folder of any owner, which the caller checks by ``os.fstat``.

    Raises:
        NotOurs: it is a link or a file, or may not be entered.
        FileNotFoundError: there is no such folder.
    """
    try:
        return os.open(path, _FLAGS)
    except NotADirectoryError:
        raise NotOurs(str(path), "it is a link or a file") from None
    except PermissionError:
        raise NotOurs(str(path), "it may not be entered") from None


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """``open_own``, closed at the end of the ``with`` block."""
    descriptor = open_own(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_ours(path: Path) -> bool:
    """Whether ``path`` is itself a folder of ours, not a link to one."""
    try:
        os.close(open_own(path))
    except OSError:
        return False
    return True


def remove(path: Path) -> bool:
    """Delete a folder of ours with all in it, as far as that is possible; False if it is not ours.

    Links in it are deleted, not followed, and its name does not matter once it is open.
    """
    try:
        with opened(path) as descriptor:
            for name in os.listdir(descriptor):  # noqa: PTH208 (of a descriptor)
                with suppress(OSError):
                    about = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                    if stat.S_ISDIR(about.st_mode):
                        shutil.rmtree(name, ignore_errors=True, dir_fd=descriptor)
                    else:
                        os.unlink(name, dir_fd=descriptor)
    except OSError:
        return False
    with suppress(OSError):
        path.rmdir()  # only if empty: another folder may have that name by now
    return True


def planted(path: Path) -> str:
    """Why another user may control ``path``; "" if no other user can.

    That is so if ``path``, or a folder above it, is another user's and lies where all may write.
    """
    lexical = Path(os.path.abspath(path))  # noqa: PTH100 (a link must be seen, not followed)
    for each in (lexical, *lexical.parents):
        with suppress(OSError):
            owner, trusted = each.lstat().st_uid, (root_user(), file_user())
            if owner not in trusted and each.parent.stat().st_mode & stat.S_IWOTH:
                return f"{each} belongs to user {owner}, and {each.parent} is open to everyone"
    return ""


def loose(folder: Path) -> str:
    """Why others can rename or remove what we make in ``folder``; "" if they cannot."""
    mode = folder.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        return f"everyone may rename what lies in {folder} (chmod +t {folder})"
    return ""
