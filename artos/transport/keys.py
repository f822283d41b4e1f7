"""The keys of a cluster: a folder with key pairs of the head, of each user and of each node.

The head's pair is ``head.key`` (public) and ``head.key_secret``; ``users`` and ``nodes`` have such
a pair for each NAME. The head accepts the public keys that are in ``users`` or ``nodes`` now. A
caller needs ``head.key`` and one secret key: a user its own, a worker the one with its name or, if
there is none, ``nodes/any``.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Self

import zmq
from zmq.utils import z85

from artos.errors import Refused
from artos.protocol.run_keys import RunKeys
from artos.system.durable import sync_folder, write_durably
from artos.system.regular_file import contents
from artos.transport.roles import ANY, BY_HAND, OWNER, Holder, KeyRole, Register, holder_of

FOLDERS = {KeyRole.USER: "users", KeyRole.NODE: "nodes", KeyRole.RUN: "runs"}

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_OLD = "cluster"  # the only key of versions without roles
_SETTLED = 1e9  # ns: coarser than any file system's clock
_LOOK = 1.0
"""Seconds between two looks at each file."""


def make_keys(folder: Path, *holders: Holder) -> list[Path]:
    """Make the head's key pair and one for each holder (by default the owner and any node).

    Existing files stay. Returns the new files.

    Raises:
        Refused: a name cannot be a file name, the folder cannot be written, or its keys are of a
            version without roles.
    """
    bad = [holder.name for holder in holders if not _NAME.fullmatch(holder.name)]
    if faults := [f"no key can be named {n!r}: use letters, digits, dots and dashes" for n in bad]:
        raise Refused(faults)
    if _is_old(folder):
        raise Refused([_new_ones(folder)])
    new: list[Path] = []
    try:
        for each in (folder, *(folder / FOLDERS[role] for role in BY_HAND)):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        bases = [folder / "head", *(_base(folder, holder) for holder in holders or (OWNER, ANY))]
        for base in bases:
            public, secret = (base.with_name(f"{base.name}.{end}") for end in ("key", "key_secret"))
            if public.exists():
                continue
            pair = zmq.curve_keypair()
            write_durably(secret, pair[1] + b"\n", 0o600)
            write_durably(public, pair[0] + b"\n", 0o644)
            new += [public, secret]
    except OSError as error:
        raise Refused([f"cannot make keys in {folder}: {error.strerror}"]) from error
    return new


def new_run_keys() -> RunKeys:
    """Keys of a run of its own."""
    (head, head_secret), (executor, executor_secret) = (
        [key.decode() for key in zmq.curve_keypair()] for _ in range(2)
    )
    return RunKeys(head, head_secret, executor, executor_secret)


def write_run_keys(folder: Path, keys: RunKeys) -> Path:
    """Write a folder as ``Keys`` reads it: executors of the run may have the name of any node.

    Raises:
        OSError: it cannot be written.
    """
    base = _base(folder, ANY)
    for each in (folder, *(folder / FOLDERS[role] for role in BY_HAND)):
        each.mkdir(mode=0o700, exist_ok=True)
    files = {
        folder / "head.key": keys.head, folder / "head.key_secret": keys.head_secret,
        base.with_name(f"{ANY.name}.key"): keys.executor,
        base.with_name(f"{ANY.name}.key_secret"): keys.executor_secret,
    }  # fmt: skip
    _write(files)
    return folder


def write_call_keys(folder: Path, head: bytes, run: str, keys: RunKeys) -> Path:
    """Write a folder as ``Keys`` reads it: with it a run calls the head whose public key that is.

    Raises:
        OSError: it cannot be written.
    """
    base = _base(folder, Holder(KeyRole.RUN, run))
    for each in (folder, base.parent):
        each.mkdir(mode=0o700, exist_ok=True)
    secret = base.with_name(f"{base.name}.key_secret")
    _write({folder / "head.key": head.decode(), secret: keys.head_secret})
    return folder


def _write(files: Mapping[Path, str]) -> None:
    for path, key in files.items():
        if key:
            write_durably(path, key.encode() + b"\n", 0o600)


def revoke(folder: Path, *holders: Holder) -> None:
    """Have the head stop accepting these keys at once.

    Raises:
        Refused: some are not there, and none was revoked; or one cannot be removed.
    """
    faults = []
    for holder in holders:
        if holder.name not in (known := names(folder, holder.role)):
            listed = f"{FOLDERS[holder.role]} with a key: {', '.join(known) or 'none'}"
            faults.append(f"{folder} has no key of {holder}; {listed}")
    if faults:
        raise Refused(faults)
    for holder in dict.fromkeys(holders):
        try:
            _base(folder, holder, ".key").unlink()
            sync_folder(folder / FOLDERS[holder.role])  # else it is valid again after a power cut
        except OSError as error:
            raise Refused([f"cannot revoke {holder} in {folder}: {error.strerror}"]) from error


def names(folder: Path, role: KeyRole) -> list[str]:
    """The users, or nodes, whose keys are accepted."""
    return sorted(path.stem for path in (folder / FOLDERS[role]).glob("*.key"))


class Keys:
    """The keys in a folder, as the head, as a user or as a node."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._register = Register()
        self._changed: tuple[int, ...] = ()
        self._paths = [str(self._of(role)) for role in BY_HAND]
        self._files: tuple[int, ...] = ()
        self._look_at = 0.0

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The keys in ``folder``.

        Raises:
            Refused: files are missing, damaged, of a version without roles, or secrets that others
                can read; it names all of them.
        """
        keys = cls(folder)
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
            Refused: the key is not in this folder, so no head can listen with it.
        """
        return _read(self.folder / "head.key_secret")

    @property
    def user(self) -> Holder:
        """The user whose secret key is here: the owner, else the only user.

        Raises:
            Refused: there is no user's secret key, or more than one.
        """
        here = {path.stem for path in (self.folder / "users").glob("*.key_secret")}
        if OWNER.name in here or len(here) == 1:
            return OWNER if OWNER.name in here else Holder(KeyRole.USER, *here)
        if here:
            several = ", ".join(sorted(here))
            raise Refused([f"{self.folder}/users has secret keys of {several}: keep only one"])
        why = "and a node's key cannot submit or query"
        raise Refused([f"{self.folder}/users has no secret key, {why}: copy a user's key there"])

    def secret_of(self, me: str) -> bytes:
        """The secret key of the peer ``me``: its own or, for a node without one, ``nodes/any``.

        Raises:
            Refused: neither key is here.
        """
        holder = holder_of(me)
        if holder is None:
            raise Refused([f"{me!r} is not a valid name: use letters, digits, dots and dashes"])
        for each in (holder, ANY) if holder.role is KeyRole.NODE else (holder,):
            if (path := _base(self.folder, each, ".key_secret")).exists():
                return _read(path)
        where = f"{self.folder}/{FOLDERS[holder.role]}"
        how = f"artos keys DIR --{holder.role.value} {holder.name}"
        raise Refused([f"{where} has no secret key of {holder}: copy it there (made by {how})"])

    def register(self) -> Register:
        """The holders of the keys that are in the folder now.

        One that was written over in place, by which no folder changes, counts within a second.
        """
        try:
            # Called for every message: pathlib takes three times as long.
            folders = tuple(os.stat(path).st_mtime_ns for path in self._paths)  # noqa: PTH116
            if (now := time.monotonic()) >= self._look_at:
                self._look_at, found = now + _LOOK, []
                for file in chain.from_iterable(self._of(role).glob("*.key") for role in BY_HAND):
                    with suppress(FileNotFoundError):  # it has just been revoked
                        found.append(file.stat().st_mtime_ns)
                self._files = tuple(sorted(found))
        except OSError:
            return Register()
        changed = folders + self._files
        if changed != self._changed:
            self._register = Register(
                {
                    key.decode(): Holder(role, path.stem)
                    for role in BY_HAND
                    for path in self._of(role).glob("*.key")
                    if (key := _key_in(path))
                }
            )
            # A second change within one tick of the file system's clock would go unnoticed.
            settled = abs(time.time_ns() - max(changed)) > _SETTLED
            self._changed = changed if settled else ()
        return self._register

    def _of(self, role: KeyRole) -> Path:
        return self.folder / FOLDERS[role]

    def _faults(self) -> list[str]:
        if _is_old(self.folder):
            return [_new_ones(self.folder)]
        secrets = [*self.folder.glob("head.key_secret"), *self.folder.glob("*/*.key_secret")]
        here = [self.folder / "head.key", *secrets, *self.folder.glob("*/*.key")]
        faults = [f"{path} is not a key: run `artos keys`" for path in here if not _key_in(path)]
        if not secrets:
            faults.append(f"{self.folder} holds no secret key: run `artos keys {self.folder}`")
        return faults + [
            f"{path} can be read by others: chmod 600 {path}"
            for path in secrets
            if _is_exposed(path.stat())
        ]


class HeadKeys(Keys):
    """The keys of a head, which also hears the runs that worker nodes carry."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._runs: Mapping[str, Holder] = {}
        self._all: tuple[Register, Mapping[str, Holder], Register]
        self._all = (Register(), self._runs, Register())

    def hear(self, runs: Mapping[str, str]) -> None:
        """From now on accept these public keys of runs, and no other run's; the names by key."""
        holders = {key: Holder(KeyRole.RUN, name) for key, name in runs.items()}
        if holders != self._runs:  # else what is known of them stays as it is
            self._runs = holders

    def register(self) -> Register:
        """The holders of the keys that are in the folder now, and the runs that are heard."""
        by_hand, runs = super().register(), self._runs  # another thread may replace the latter
        of, with_runs, found = self._all
        if of is not by_hand or with_runs is not runs:
            found = Register({**runs, **by_hand.holders})
            self._all = by_hand, runs, found
        return found


def _is_exposed(secret: os.stat_result) -> bool:
    """Whether others than we can read a file.

    What is root's and a group's that we are in, root has given us, as a kubelet does with Secrets.
    """
    given = secret.st_uid == 0 != os.geteuid()
    return bool(secret.st_mode & (0o007 if given else 0o077))


def _is_old(folder: Path) -> bool:
    """Whether these keys were made by a version in which each key allowed everything."""
    headed = (folder / "head.key_secret").exists() and not (folder / FOLDERS[KeyRole.USER]).is_dir()
    return headed or any((folder / "nodes").glob(f"{_OLD}.key*"))


def _new_ones(folder: Path) -> str:
    return (
        f"{folder} has keys of a version in which workers could submit, too: make new keys on the "
        f"head, `mv {folder} {folder}.old && artos keys {folder}`, and copy them to the workers"
    )


def _base(folder: Path, holder: Holder, suffix: str = "") -> Path:
    return folder / FOLDERS[holder.role] / f"{holder.name}{suffix}"


def _key_in(path: Path) -> bytes:
    """The key in a file; b"" if there is none (any more)."""
    try:
        key = contents(path).strip()
        z85.decode(key)
    except (OSError, ValueError, KeyError):
        return b""
    return key if len(key) == 40 else b""


def _read(path: Path) -> bytes:
    if not (key := _key_in(path)):
        raise Refused([f"{path} is not a key or cannot be read: run `artos keys`"])
    return key
