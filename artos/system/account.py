"""System accounts: a daemon that is root starts processes under one, and touches its files as it.

A folder that belongs to an account may have links in it that lead elsewhere. So root never reads,
writes or deletes there by its own rights, but as the owner of the folder. That holds for one thread
at a time: the others of a daemon go on as root, but for those that it begins meanwhile.
"""

from __future__ import annotations

import ctypes
import functools
import os
import pwd
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artos.errors import Refused
from artos.system import user_namespace

_libc = ctypes.CDLL(None, use_errno=True)
for _change in (_libc.setfsuid, _libc.setfsgid):
    _change.argtypes, _change.restype = [ctypes.c_uint], ctypes.c_uint
_ASK = 0xFFFFFFFF
"""No user's number: nothing is changed, and the present one is returned."""
_EFFECTIVE = re.compile(r"^CapEff:\s*([0-9a-f]+)", re.MULTILINE)
_NEEDED = {"CHOWN": 0, "KILL": 5, "SETGID": 6, "SETUID": 7}
"""Numbers of capabilities (capabilities(7)); a container may have taken them from its root."""
HOW_TO_SWITCH = f"start it as root that has the capabilities {', '.join(_NEEDED)}"
_OF_ANOTHER = ("XDG_",)
"""How variables begin that name folders of the user who started the daemon."""


@dataclass(frozen=True, slots=True)
class SystemAccount:
    """An account of this machine."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    criu: str = ""
    """The CRIU by which its processes make images; "": they make none."""
    rights: tuple[int, ...] = ()
    """The capabilities that they have for it, in a user namespace of their own and nowhere else."""

    @classmethod
    def named(cls, name: str) -> SystemAccount:
        """The account of that name.

        Raises:
            Refused: there is none, or it is root's.
        """
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            raise Refused([f"this machine has no account {name!r}: make it (useradd -m)"]) from None
        if found.pw_uid == 0:
            raise Refused([f"the account {name!r} is root's: name one without privileges"])
        groups = tuple(os.getgrouplist(name, found.pw_gid))
        return cls(name, found.pw_uid, found.pw_gid, groups, found.pw_dir)

    def environment(self, daemon: Mapping[str, str]) -> Mapping[str, str]:
        """The variables of a process of this account that a daemon with those variables starts."""
        kept = {name: text for name, text in daemon.items() if not name.startswith(_OF_ANOTHER)}
        criu = {"ARTOS_CRIU": self.criu} if self.criu else {}
        return {**kept, **criu, "HOME": self.home, "USER": self.name, "LOGNAME": self.name}

    @property
    def entry(self) -> Sequence[str]:
        """What runs a command that root starts, so that it becomes this account's; () if nothing.

        Root keeps off what the account could have it import: no variable, folder or site counts.
        """
        if not self.rights:
            return ()
        several = (",".join(map(str, each)) for each in (self.groups, self.rights))
        script = Path(user_namespace.__file__)
        who = (str(self.uid), str(self.gid), *several, self.home)
        return (sys.executable, "-I", "-S", str(script), *who)

    @property
    def switching(self) -> dict[str, Any]:
        """What makes ``subprocess.Popen`` start a process of this account, in its home or in /."""
        if self.rights:
            return {"cwd": "/"}  # it is its ``entry`` that switches
        with self.acting():
            cwd = self.home if _entered(self.home) else "/"
        return {"user": self.uid, "group": self.gid, "extra_groups": self.groups, "cwd": cwd}

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Touch files as this account, in this thread."""
        with _acting(self.uid, self.gid):
            yield

    def require(self, *folders: Path) -> None:
        """Make sure that processes of ours can run under it, and enter these folders.

        Raises:
            Refused: lists the causes.
        """
        python, here = Path(sys.executable), Path(__file__)
        closed: dict[str, None] = {}
        for path in (python, python.resolve(), here, *folders):
            above = [*reversed(path.parents), *([path] if path.is_dir() else [])]
            with self.acting():
                if shut := next((each for each in above if not _entered(str(each))), None):
                    closed[f"enter {shut} (chmod o+x {shut})"] = None
                elif path not in above and not path.is_symlink() and not _read(path):
                    closed[f"read {path} (chmod o+r {path})"] = None
        if closed:
            raise Refused([f"the account {self.name} cannot {each}" for each in closed])


def _entered(folder: str) -> bool:
    try:
        os.stat(f"{folder}/.")  # noqa: PTH116 (a Path drops the dot, which asks for entry)
    except OSError:
        return False
    return True


def _read(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def may_switch() -> bool:
    """Whether this process may start others under another account: it is root, with its rights."""
    found = _EFFECTIVE.search(Path("/proc/thread-self/status").read_text())
    rights = int(found[1], 16) if found else 0
    return os.geteuid() == 0 and all(rights >> number & 1 for number in _NEEDED.values())


@functools.cache
def root_user() -> int:
    """The number that root's files have here.

    In the user namespace of an account that is the number of all whom it does not know.
    """
    known = Path("/proc/self/uid_map").read_text().splitlines()
    if any(line.split()[0] == "0" for line in known):
        return 0
    return int(Path("/proc/sys/kernel/overflowuid").read_text())


def file_user() -> int:
    """The user to whom files belong that this thread makes."""
    return int(_libc.setfsuid(_ASK))


@contextmanager
def as_owner(folder: Path) -> Iterator[None]:
    """Touch files as the owner of ``folder``, in this thread; no change if there is no folder.

    Only root can do that. What is above the folder must be out of its owner's reach.
    """
    try:
        owner = folder.lstat()
    except (OSError, ValueError):  # as for a path with a NUL, which a damaged record may have
        owner = None
    if owner is None or owner.st_uid == file_user() or not may_switch():
        yield
    else:
        with _acting(owner.st_uid, owner.st_gid):
            yield


def require_owner(folder: Path, account: SystemAccount | None) -> None:
    """Make sure that a folder is an account's (None: this user's), or is not there.

    Raises:
        Refused: it is another user's.
    """
    owner = os.geteuid() if account is None else account.uid
    if not os.path.lexists(folder) or (found := folder.lstat().st_uid) == owner:
        return
    who = f"account {account.name}" if account else "account of this daemon"
    raise Refused(
        [f"{folder} belongs to user {found}, and this run has the {who}: let the user whose it "
         f"is resume it, or give it away (chown -hR {owner} {folder})"]
    )  # fmt: skip


def give(folder: Path, account: SystemAccount) -> None:
    """Make a folder for an account alone, unless it has it already.

    Nobody but this user may write to the folder above, or another could put a link there meanwhile.

    Raises:
        Refused: the folder is there, and another user's.
        OSError: it cannot be made.
    """
    require_owner(folder, account)
    if not folder.exists():
        folder.mkdir(mode=0o700)
        os.chown(folder, account.uid, account.gid, follow_symlinks=False)


@contextmanager
def _acting(uid: int, gid: int) -> Iterator[None]:
    before = (file_user(), int(_libc.setfsgid(_ASK)))
    if os.getgroups():
        os.setgroups([])  # root needs none, and files that they may read are not the account's
    try:
        _switch(uid, gid)
        yield
    finally:
        _switch(*before)


def _switch(uid: int, gid: int) -> None:
    _libc.setfsgid(gid)
    _libc.setfsuid(uid)
    if (file_user(), int(_libc.setfsgid(_ASK))) != (uid, gid):
        raise PermissionError(f"this process may not touch files as user {uid}, group {gid}")
