"""Control groups with a memory limit: past it the kernel kills, as in a container or a service."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers import PATIENCE

from artos.system.cgroups import groups, text

_LIMITS = {"memory.max": "memory.events", "memory.limit_in_bytes": "memory.oom_control"}
"""The file of the limit and that of what came of it, in version 2 and in version 1."""
_SWAP = ("memory.swap.max", "memory.swappiness")
"""What keeps a group from swapping instead, in version 2 and in version 1."""


class MemoryGroup:
    """A group in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def command(self) -> tuple[str, ...]:
        """What to put before a command so that it runs in the group, with all it starts."""
        return ("sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.folder / "cgroup.procs"))

    @property
    def kills(self) -> int:
        """How many processes the kernel has killed here because memory ran out."""
        found = re.search(r"^oom_kill (\d+)$", text(_existing(self.folder, 1)), re.M)
        assert found, "this kernel does not count them"
        return int(found[1])


@contextmanager
def memory_group(megabytes: int) -> Iterator[MemoryGroup]:
    """A group whose processes have so much memory together; skips the test where none can be made.

    Its processes must have ended in the end.
    """
    folder = _made()
    try:
        _existing(folder, 0).write_text(str(megabytes << 20))
        for name in _SWAP:
            if (swap := folder / name).exists():
                swap.write_text("0")
        yield MemoryGroup(folder)
    finally:
        _remove(folder)


def _made() -> Path:
    """A new group below the topmost one that can be seen from here."""
    tops = groups("memory")[::-1]
    whys = []
    for top in tops:
        folder = top / f"artos-tests.{secrets.token_hex(4)}"
        try:
            folder.mkdir()
            if _existing(folder, 0).exists():
                return folder
            whys.append(f"{top} does not hand on the memory controller")
            folder.rmdir()
        except OSError as error:
            whys.append(str(error))
    pytest.skip(f"no memory group can be made: {'; '.join(whys) or 'none is mounted'}")


def _existing(folder: Path, which: int) -> Path:
    files = [folder / pair[which] for pair in _LIMITS.items()]
    return next((file for file in files if file.exists()), files[0])


def _remove(folder: Path) -> None:
    end = time.monotonic() + PATIENCE
    while text(folder / "cgroup.procs") and time.monotonic() < end:
        time.sleep(0.01)  # who was killed leaves a moment later
    os.rmdir(folder)  # noqa: PTH106 (its files are the kernel's)
