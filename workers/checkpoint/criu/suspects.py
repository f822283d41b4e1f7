"""Lists things a process holds that CRIU usually cannot save; reported with CRIU's own error."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

_HARMLESS = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/shm/")
_GPUS = ("/dev/nvidia", "/dev/dri/", "/dev/kfd")
_MOST = 8


def suspects(pid: int) -> list[str]:
    """Sockets and devices that the process has open or mapped, and threads with own names.

    A description of each; empty if the process is gone.
    """
    found: list[str] = []
    with suppress(OSError, psutil.Error):
        peers = {
            each.fd: f"a socket ({_address(each.laddr)} to {_address(each.raddr)})"
            for each in psutil.Process(pid).net_connections("inet")
        }
        opened = dict[int, str]()
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                opened[int(link.name)] = str(link.readlink())
        for number, target in sorted(opened.items()):
            if _is_suspect(target):
                found.append(f"descriptor {number} is {peers.get(number, _with_kind(target))}")
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        mapped = {line[line.index("/") :] for line in lines if "/" in line}
        found += [f"memory of {_with_kind(each)}" for each in sorted(filter(_is_suspect, mapped))]
        own = Path(f"/proc/{pid}/comm").read_text().strip()
        if names := sorted({*threads(pid)} - {own}):
            found.append(f"it has threads named {', '.join(names)}")
        return found[:_MOST]
    return []


def threads(pid: int) -> list[str]:
    """Names of the process's threads, except its first thread; empty if the process is gone.

    The kernel cuts names to 15 characters; a thread without a name has that of the process.
    """
    with suppress(OSError):
        tasks = sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda task: int(task.name))
        return [(task / "comm").read_text().strip() for task in tasks if task.name != str(pid)]
    return []


def _with_kind(target: str) -> str:
    return f"{target} (a GPU context)" if target.startswith(_GPUS) else target


def _is_suspect(target: str) -> bool:
    if target.startswith("/dev/"):
        return not target.startswith(_HARMLESS)
    return target.startswith(("socket:", "anon_inode:[io_uring]"))


def _address(address: tuple[object, ...]) -> str:
    return ":".join(map(str, address)) or "nobody"
