"""Where shared memory is on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from artos.errors import Refused
from artos.system import private_folder

_VARIABLE = "ARTOS_SHM"


def shm_root() -> Path:
    """The shared-memory filesystem, /dev/shm unless ``ARTOS_SHM`` names another.

    Raises:
        Refused: it is not a folder that can be written, or others can rename what we make there.
    """
    root = named_root()
    if why := _unfit(root):
        then = f"have {_VARIABLE} name a folder of yours in memory by its absolute path"
        raise Refused([f"shared memory cannot be in {root}: {why}; {then}"])
    return root


def named_root() -> Path:
    """Where shared memory is to be, whether or not it can be there."""
    return Path(os.environ.get(_VARIABLE) or "/dev/shm")


def _unfit(root: Path) -> str:
    if not root.is_absolute():
        return "its path is not absolute"
    if not os.path.isdir(root):  # noqa: PTH112 (Path.is_dir raises where a parent is closed)
        return "it is not a folder" if os.path.lexists(root) else "there is no such folder"
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        return "it cannot be written"
    return private_folder.planted(root) or private_folder.loose(root)
