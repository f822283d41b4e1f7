"""Tells what this user's ARTOS wrote itself from what came from elsewhere.

A seal is an HMAC under a key that never leaves the user's home: another user who hands over a
folder cannot make one.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from contextlib import suppress

from artos.system.regular_file import opened
from artos.system.user_cache import user_state

_BYTES = 32


def seal(text: str) -> str:
    """The seal of a text; empty if this account has no place to keep its key."""
    key = _key(create=True)
    return _sealed(key, text) if key else ""


def is_sealed(text: str, sealed: str) -> bool:
    """Whether this user's ARTOS has made the seal ``sealed`` for a text."""
    key = _key(create=False)
    return bool(key and sealed) and hmac.compare_digest(_sealed(key, text), sealed)


def _sealed(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _key(*, create: bool) -> bytes:
    """The user's key, made once; empty where there is none, or others may know it."""
    path = user_state() / "key"
    with suppress(OSError):
        if create and not path.exists():
            # It is complete before any process can see it; one that was made first stays.
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = path.with_name(f".key.{os.getpid()}.{secrets.token_hex(4)}")
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                with os.fdopen(os.open(draft, flags, 0o600), "wb") as new:
                    new.write(secrets.token_bytes(_BYTES))
                with suppress(FileExistsError):
                    os.link(draft, path)
            finally:
                draft.unlink(missing_ok=True)
        with opened(path) as file:
            there = os.fstat(file.fileno())
            secret = not there.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
            if there.st_uid == os.geteuid() and secret and there.st_size == _BYTES:
                return file.read(_BYTES)
    return b""
