"""Lists things a process holds that CRIU usually cannot save; reported beside CRIU's own error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

_HARMLESS = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/shm/")
_GPUS = ("/dev/nvidia", "/dev/dri/", "/dev/kfd")
_MOST = 8


def suspects(pid: int) -> list[str]:
    """In words: sockets and devices the process has open or mapped, and threads with own names.

    Empty if the process is gone.
    """
    with suppress(OSError, psutil.Error):
        return [*_opened(pid), *_mapped(pid), *_named(pid)][:_MOST]
    return []


def threads(pid: int) -> list[str]:
    """Names of the process's threads, except its first thread; empty if the process is gone.

    The kernel cuts names to 15 characters; a thread without a name has that of the process.
    """
    with suppress(OSError):
        tasks = sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda task: int(task.name))
        return [(task / "comm").read_text().strip() for task in tasks if task.name != str(pid)]
    return []


def _opened(pid: int) -> Iterator[str]:
    peers = _peers(pid)
    for number, target in sorted(_descriptors(pid)):
        if _is_suspect(target):
            yield f"descriptor {number} is {peers.get(number, _with_kind(target))}"


def _mapped(pid: int) -> Iterator[str]:
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    targets = {line[line.index("/") :] for line in lines if "/" in line}
    for target in sorted(filter(_is_suspect, targets)):
        yield f"memory of {_with_kind(target)}"


def _named(pid: int) -> Iterator[str]:
    own = Path(f"/proc/{pid}/comm").read_text().strip()
    if names := sorted({*threads(pid)} - {own}):
        yield f"it has threads named {', '.join(names)}"


def _with_kind(target: str) -> str:
    return f"{target} (a GPU context)" if target.startswith(_GPUS) else target


def _is_suspect(target: str) -> bool:
    if target.startswith("/dev/"):
        return not target.startswith(_HARMLESS)
    return target.startswith(("socket:", "anon_inode:[io_uring]"))


def _descriptors(pid: int) -> Iterator[tuple[int, str]]:
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            yield int(link.name), str(link.readlink())


def _peers(pid: int) -> dict[int, str]:
    """Network sockets in words, with both addresses, by descriptor."""
    return {
        each.fd: f"a socket ({_address(each.laddr)} to {_address(each.raddr)})"
        for each in psutil.Process(pid).net_connections("inet")
    }


def _address(address: tuple[object, ...]) -> str:
    return ":".join(map(str, address)) or "nobody"
