"""Where a pool lies: in a folder of its user, or in one that a group of users shares."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from artos.buffer.segment import shm_root
from artos.errors import NotOurs
from artos.system import private_folder

_VARIABLE = "ARTOS_POOL"
_EVERYBODY = stat.S_IRWXO


def pool_folder() -> Path:
    """The pool's folder: what ``ARTOS_POOL`` names, else this user's own, see ``shm_root``."""
    return Path(os.environ.get(_VARIABLE) or shm_root() / f"artos-pool-{os.geteuid()}")


def is_shared(folder: Path) -> bool:
    """Whether an administrator made it for a group: what is made there is the group's (setgid)."""
    try:
        return bool(folder.stat().st_mode & stat.S_ISGID)
    except FileNotFoundError:
        return False


def file_mode(folder: Path) -> int:
    """The rights of files in it."""
    return 0o660 if is_shared(folder) else 0o600


def prepare(folder: Path) -> None:
    """Make it for us alone, unless it is there; make sure that only those meant to can enter.

    Raises:
        NotOurs: others can.
    """
    if is_shared(folder):
        check(folder)
    else:
        private_folder.keep(folder)


def check(folder: Path) -> None:
    """Make sure that only those meant to can enter.

    Raises:
        NotOurs: others can.
        FileNotFoundError: it is not there.
    """
    if not is_shared(folder):
        os.close(private_folder.open_own(folder))
    elif folder.stat().st_mode & _EVERYBODY:
        raise NotOurs(
            str(folder), f"everybody may enter it, not just its group (chmod o= {folder})"
        )
