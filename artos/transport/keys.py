"""The keys of a cluster: a folder with the head's key pair and one pair for each node.

``head.key`` (public), ``head.key_secret``, ``nodes/NAME.key``, ``nodes/NAME.key_secret``. The head
lets in whose public key is in ``nodes`` now. A worker needs ``head.key`` and its own secret only.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import zmq
from zmq.utils import z85

from artos.errors import Refused

DEFAULT = "cluster"
"""The node key that everybody uses who has none of its own name."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SETTLED = 1e9  # ns: coarser than any file system's clock


def make_keys(folder: Path, name: str = DEFAULT) -> list[Path]:
    """Make the head's pair and that of node ``name``; what is there stays. Returns new files.

    Raises:
        Refused: ``name`` is no name for a file, or the folder cannot be written.
    """
    if not _NAME.fullmatch(name):
        raise Refused([f"no key can be named {name!r}: use letters, digits, dots and dashes"])
    try:
        for each in (folder, folder / "nodes"):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        return [*_make_pair(folder / "head"), *_make_pair(folder / "nodes" / name)]
    except OSError as error:
        raise Refused([f"cannot make keys in {folder}: {error.strerror}"]) from error


def revoke(folder: Path, name: str) -> None:
    """From now on the head talks to nobody who has this node's key.

    Raises:
        Refused: there is no such key, or it cannot be removed.
    """
    if name not in (there := names(folder)):
        known = ", ".join(there) or "none"
        raise Refused([f"{folder} has no key of a node {name!r}: there are {known}"])
    try:
        (folder / "nodes" / f"{name}.key").unlink()
    except OSError as error:
        raise Refused([f"cannot revoke {name!r} in {folder}: {error.strerror}"]) from error


def names(folder: Path) -> list[str]:
    """The nodes whose keys are accepted."""
    return sorted(path.stem for path in (folder / "nodes").glob("*.key"))


class Keys:
    """The keys in a folder, as the head or as a node."""

    def __init__(self, folder: Path, name: str = "") -> None:
        self.folder, self._name = folder, name
        self._accepted: frozenset[str] = frozenset()
        self._changed = 0

    @classmethod
    def load(cls, folder: Path, name: str = "") -> Keys:
        """The keys in ``folder``; ``name`` says which node's to use where there are several.

        Raises:
            Refused: files are missing, damaged, or secrets that others can read; all at once.
        """
        keys = cls(folder, name)
        if faults := keys._faults():
            raise Refused(faults)
        return keys

    @property
    def head(self) -> bytes:
        """The head's public key."""
        return _read(self.folder / "head.key")

    @property
    def head_secret(self) -> bytes:
        """The head's secret key.

        Raises:
            Refused: it is not here, so nobody can listen here.
        """
        return _read(self.folder / "head.key_secret")

    def secret_of(self, me: str) -> bytes:
        """The secret key that ``me`` uses: its own, else the cluster's, else the only one here.

        Raises:
            Refused: there is none, or the choice is not clear.
        """
        here = {path.stem: path for path in (self.folder / "nodes").glob("*.key_secret")}
        for name in (self._name, me, DEFAULT):
            if name in here:
                return _read(here[name])
        if len(here) != 1:
            raise Refused([f"{self.folder}/nodes has no key of {me!r}: copy its .key_secret there"])
        return _read(*here.values())

    def accepts(self, public: str) -> bool:
        """Whether this is a node's public key that is not revoked, by what the folder says now."""
        try:
            changed = (self.folder / "nodes").stat().st_mtime_ns
        except OSError:
            return False
        if changed != self._changed:
            files = (self.folder / "nodes").glob("*.key")
            self._accepted = frozenset(key.decode() for path in files if (key := _look(path)))
            # A second change within one tick of the file system's clock would not show.
            self._changed = changed if time.time_ns() - changed > _SETTLED else 0
        return public in self._accepted

    def _faults(self) -> list[str]:
        secrets = [*self.folder.glob("head.key_secret"), *self.folder.glob("nodes/*.key_secret")]
        here = [self.folder / "head.key", *secrets, *self.folder.glob("nodes/*.key")]
        faults = [f"{path} is no key: run `artos keys`" for path in here if not _look(path)]
        if not secrets:
            faults.append(f"{self.folder} holds no secret key: run `artos keys {self.folder}`")
        return faults + [
            f"{path} can be read by others: chmod 600 {path}"
            for path in secrets
            if path.stat().st_mode & 0o077
        ]


def _make_pair(base: Path) -> list[Path]:
    public, secret = base.with_name(f"{base.name}.key"), base.with_name(f"{base.name}.key_secret")
    if public.exists():
        return []
    pair = zmq.curve_keypair()
    _write(secret, pair[1], 0o600)
    _write(public, pair[0], 0o644)
    return [public, secret]


def _write(path: Path, key: bytes, mode: int) -> None:
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(key + b"\n")
    new.replace(path)


def _look(path: Path) -> bytes:
    """The key in a file; b"" if there is none (any more)."""
    try:
        key = path.read_bytes().strip()
        z85.decode(key)
    except (OSError, ValueError, KeyError):
        return b""
    return key if len(key) == 40 else b""


def _read(path: Path) -> bytes:
    if not (key := _look(path)):
        raise Refused([f"{path} is no key or cannot be read: run `artos keys`"])
    return key
