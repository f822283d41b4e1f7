"""``python -I -S FILE UID GID GROUPS RIGHTS HOME COMMAND...``: root becomes an account with rights.

``python -I -S FILE own RIGHTS COMMAND...``: an ordinary user has these rights over what is the
user's own; nobody has to give them.

An account has them in a user namespace of its own, in which nobody but the account exists: it may
look into its own processes and bring them back, and root, other users and what is theirs are out of
its reach, whatever an image says. Root owns the namespace, so no other process can enter it, and no
program can raise its rights there. Where no such namespace can be made, the account has no rights.

``GROUPS`` and ``RIGHTS`` are numbers with commas between them. The command begins in ``HOME``, or
in / if the account cannot enter it. Nothing of ours is imported, since root runs this with the
account's variables.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_NEW_USER, _NEW_MOUNT = 0x10000000, 0x00020000
_KEEP_CAPS, _NO_NEW_PRIVILEGES, _AMBIENT, _RAISE = 8, 38, 47, 2
_VERSION_3 = 0x20080522
"""Of the kernel's structures for capset(2): sets of 64 bits, each in two words."""

_libc = ctypes.CDLL(None, use_errno=True)


def enter(uid: int, groups: Sequence[int]) -> bool:
    """Enter a namespace in which there are this user and these groups; False if there can be none.

    Its mounts are copies, as CRIU mounts things for a moment.
    """
    ours = os.getpid()
    gate, opener = os.pipe()
    if (helper := os.fork()) == 0:  # only from outside may root say who is there
        os.close(opener)
        entered = os.read(gate, 1)
        if entered:
            for name, numbers in (("uid_map", [uid]), ("gid_map", sorted({*groups}))):
                lines = "".join(f"{each} {each} 1\n" for each in numbers)
                Path(f"/proc/{ours}/{name}").write_text(lines)
        os._exit(not entered)
    os.close(gate)
    made = bool(_libc.unshare(_NEW_USER | _NEW_MOUNT) == 0)
    if made:
        os.write(opener, b"!")
    os.close(opener)
    if os.waitpid(helper, 0)[1] and made:
        sys.exit("nobody could be let into a new user namespace")
    return made


def enter_own() -> bool:
    """Enter a namespace in which there is this user alone; False if the machine makes none."""
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(_NEW_USER | _NEW_MOUNT) != 0:
        return False
    files = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
    for name, text in files.items():
        Path(f"/proc/self/{name}").write_text(text)
    return True


def become(uid: int, gid: int, groups: Sequence[int], rights: Sequence[int]) -> None:
    """Be this user from here on, with these rights and no way to more."""
    _prctl(_KEEP_CAPS, 1)
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    have(rights)


def have(rights: Sequence[int]) -> None:
    """Have these rights and no way to more, in this process and in programs that it becomes."""
    mask = sum(1 << each for each in rights)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    words = [mask & 0xFFFFFFFF] * 3 + [mask >> 32] * 3
    if _libc.capset(header, (ctypes.c_uint32 * 6)(*words)) == -1:
        raise OSError(ctypes.get_errno(), "capset")
    for each in rights:
        _prctl(_AMBIENT, _RAISE, each)
    _prctl(_NO_NEW_PRIVILEGES, 1)


def _prctl(option: int, *arguments: int) -> None:
    four = (*arguments, 0, 0, 0, 0)[:4]
    if _libc.prctl(option, *map(ctypes.c_ulong, four)) == -1:
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def main(arguments: Sequence[str]) -> None:
    """Become the account, or take the rights, and then the command."""
    if arguments[0] == "own":
        if not enter_own():
            sys.exit("this machine makes no user namespaces for its users")
        have([int(each) for each in arguments[1].split(",")])
        os.execvp(arguments[2], [*arguments[2:]])
    uid, gid = map(int, arguments[:2])
    groups, rights = ([*map(int, filter(None, each.split(",")))] for each in arguments[2:4])
    if not enter(uid, [gid, *groups]):
        print("there are no images: this machine makes no user namespaces", file=sys.stderr)  # noqa: T201 (the log)
        rights = []
    become(uid, gid, groups, rights)
    os.chdir("/")
    with suppress(OSError):
        os.chdir(arguments[4])  # only now: root is led nowhere by what the account made of it
    os.execvp(arguments[5], [*arguments[5:]])


if __name__ == "__main__":
    main(sys.argv[1:])
