"""What a process holds that an image usually cannot: told beside the culprit that CRIU names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

_HARMLESS = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/shm/")
_MOST = 8


def suspects(pid: int) -> list[str]:
    """Sockets, devices and the like that the process has open, in words; empty if it is gone."""
    with suppress(OSError, psutil.Error):
        peers = _peers(pid)
        found = (
            f"descriptor {number} is {peers.get(number, target)}"
            for number, target in sorted(_descriptors(pid))
            if _is_suspect(target)
        )
        return [words for words, _ in zip(found, range(_MOST), strict=False)]
    return []


def _is_suspect(target: str) -> bool:
    if target.startswith("/dev/"):
        return not target.startswith(_HARMLESS)
    return target.startswith(("socket:", "anon_inode:[io_uring]"))


def _descriptors(pid: int) -> Iterator[tuple[int, str]]:
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            yield int(link.name), str(link.readlink())


def _peers(pid: int) -> dict[int, str]:
    """Network sockets by descriptor: from where to where."""
    return {
        each.fd: f"a socket ({_address(each.laddr)} to {_address(each.raddr)})"
        for each in psutil.Process(pid).net_connections("inet")
    }


def _address(address: tuple[object, ...]) -> str:
    return ":".join(map(str, address)) or "nobody"
