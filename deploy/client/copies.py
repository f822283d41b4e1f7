"""Runs of a head that are named ``RUN@HEAD`` where a run's folder is expected."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from artos.errors import Refused
from artos.specs.fields import NAME
from artos.system.user_cache import user_cache
from deploy.client.fetch import fetch
from deploy.client.head_client import HeadClient


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
    place = hashlib.sha256(head.encode()).hexdigest()[:16]
    with HeadClient(head, Path(keys)) as client:
        return fetch(client, name, user_cache() / "copies" / place / name, what).folder
