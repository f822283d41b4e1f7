"""The pool that runs of several accounts have in common where a daemon that is root starts them.

Without it each account would have a pool of its own, and all of them the same CPUs and devices.
Its group has no members: the daemon gives it to the processes that it starts, and to nobody else.
"""

from __future__ import annotations

import fcntl
import grp
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from artos.errors import NotOurs
from artos.pool.folder import VARIABLE
from artos.system import private_folder
from artos.system.shm import shm_root

_NAME = "artos-pool-accounts"
_RIGHTS = 0o2770
_GROUPS = range(61_184, 65_520)
"""Numbers that belong to no account: what distributions leave for passing uses (systemd)."""


@contextmanager
def common_pool() -> Iterator[int | None]:
    """Have ``ARTOS_POOL`` name it, for this process and those that it starts, within the block.

    Its group is yielded; None if the variable names another pool, whose group is a matter of the
    accounts.

    Raises:
        NotOurs: another user has put something in its place.
        OSError: it cannot be made.
    """
    path = shm_root() / _NAME
    before = os.environ.get(VARIABLE)
    if before and Path(before) != path:
        yield None
        return
    descriptor = _opened(path)
    os.environ[VARIABLE] = str(path)
    try:
        yield os.fstat(descriptor).st_gid
    finally:
        del os.environ[VARIABLE]
        if before:
            os.environ[VARIABLE] = before
        with suppress(OSError):  # another daemon uses it, or a run that lives on
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.rmdir()
        os.close(descriptor)


def _opened(path: Path) -> int:
    """A descriptor of the folder, which is not removed as long as that is open."""
    while True:
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        try:
            descriptor = private_folder.open_folder(path)
        except FileNotFoundError:  # the last daemon that used it has just removed it
            continue
        about = os.fstat(descriptor)
        if about.st_uid != os.geteuid():
            os.close(descriptor)
            raise NotOurs(str(path), f"it belongs to user {about.st_uid}")
        if stat.S_IMODE(about.st_mode) != _RIGHTS:
            os.fchown(descriptor, about.st_uid, _free_group())
            os.fchmod(descriptor, _RIGHTS)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        with suppress(FileNotFoundError):
            if os.path.samestat(path.lstat(), os.fstat(descriptor)):
                return descriptor
        os.close(descriptor)


def _free_group() -> int:
    taken = {each.gr_gid for each in grp.getgrall()}
    return next(number for number in _GROUPS if number not in taken)
