"""Copies of a head's runs in the user's cache, as for ``RUN@HEAD`` where a folder is expected."""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path

from artos.errors import Refused
from artos.specs.fields import NAME
from artos.system import private_folder
from artos.system.locks import FileLock
from artos.system.user_cache import user_cache
from deploy.client.copied import MARK, copied_at
from deploy.client.fetch import fetch
from deploy.client.head_client import HeadClient

_UNUSED = 30 * 86_400.0
"""Seconds after which a copy is removed that nobody has asked for."""


def _folder() -> Path:
    return user_cache() / "copies"


def copies_of(head: str) -> Path:
    """The folder of a head's copies."""
    return _folder() / hashlib.sha256(head.encode()).hexdigest()[:16]


def tidy() -> list[Path]:
    """Remove copies that nobody has asked for for 30 days; returns their folders.

    One that goes on as a run of its own is none any more, and stays.
    """
    if private_folder.planted(_folder()) or not private_folder.is_ours(_folder()):
        return []  # or what is removed may be somebody's
    return [mark.parent for mark in [*_folder().rglob(MARK)] if _removed(mark)]


def _removed(mark: Path) -> bool:
    if not _is_old(mark.parent):
        return False
    with suppress(OSError):  # it may not be written to
        if lock := FileLock.take(mark, create=False):
            with lock:  # it may just have been copied anew
                return _is_old(mark.parent) and private_folder.remove(mark.parent)
    return False


def _is_old(copy: Path) -> bool:
    return 0 < copied_at(copy) < time.time() - _UNUSED


def local(path: str, what: str = "checkpoint") -> str:
    """The folder of a run on this machine; of ``RUN@HEAD`` a copy of its newest checkpoint.

    ``what`` else is copied is as ``artos get --what`` has it, or ``records``.

    ``RUN@`` is one of the head that ``ARTOS_HEAD`` names; keys are those of ``ARTOS_KEYS``.

    Raises:
        Refused: no keys are named, or the head refuses.
        NoHead, WrongKeys, DeadlineExceeded: the head does not answer.
    """
    name, at, head = path.partition("@")
    if not at or Path(path).exists() or not NAME.fullmatch(name):
        return path
    head, keys = head or os.environ.get("ARTOS_HEAD", ""), os.environ.get("ARTOS_KEYS", "")
    if not (head and keys):
        raise Refused([f"{path}: set ARTOS_KEYS, and ARTOS_HEAD or write {name}@tcp://IP:PORT"])
    with HeadClient(head, Path(keys)) as client:
        return fetch(client, name, copies_of(head) / name, what).folder
