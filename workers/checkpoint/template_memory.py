"""A template's memory on its way to another node, where clones of the template need it.

A clone's image holds only what differs from it (``criu.common_memory``). It is named after its
content, so that it is brought to a node once, whoever needs it there.
"""

from __future__ import annotations

import errno
import re
from pathlib import Path

from artos.errors import ImageUnusable, ShmTooSmall
from artos.system.shm import free_bytes
from workers.checkpoint.bundle_file import packing, unpacking

_SIZE, _MEMORY = "size.json", "memory"
_NAME_LENGTH = 16
_NAME = re.compile(rf"[0-9a-f]{{{_NAME_LENGTH}}}")


def is_name(name: str) -> bool:
    """Whether memory can have this name."""
    return _NAME.fullmatch(name) is not None


def name_of(checksum: str) -> str:
    """The name of memory with that checksum."""
    return checksum[:_NAME_LENGTH]


def path_of(name: str, folder: Path) -> Path:
    """Where memory of that name is, in a run's shared memory."""
    return folder / f"{name}.{_MEMORY}"


def pack(memory: Path, target: Path) -> str:
    """Write a bundle of a template's memory; returns the name, under which it is here, too.

    Raises:
        OSError: there is no such memory yet, or no room; nothing is left of the bundle.
    """
    before = memory.stat()
    with packing(target) as bundle:
        bundle.note(_SIZE, before.st_size)
        bundle.file(_MEMORY, memory)
        name = name_of(bundle.sums[_MEMORY])
    here, after = path_of(name, memory.parent), memory.stat()
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        target.unlink()
        raise OSError(errno.EBUSY, "the template's memory is still being written")
    try:
        if not here.exists():
            here.hardlink_to(memory)
    except OSError:
        target.unlink()
        raise
    return name


def unpack(bundle: Path, folder: Path) -> str:
    """Put the memory in a bundle into a run's shared memory, unless it is there; returns its name.

    Raises:
        ImageUnusable: the bundle is damaged.
        ShmTooSmall: there is no room for it.
    """
    partial = folder / f"{bundle.name}.{_MEMORY}.partial"
    try:
        with unpacking(bundle) as opened:
            size = opened.note(_SIZE, int)
            if not 0 <= size <= (room := free_bytes(folder)):
                raise ShmTooSmall(size, room, str(folder))
            opened.file(_MEMORY, partial, size)
            if opened.changed():
                raise ImageUnusable(bundle.name, ["the memory differs from what was packed"])
            name = name_of(opened.sums[_MEMORY])
        if not path_of(name, folder).exists():
            partial.rename(path_of(name, folder))
    finally:
        partial.unlink(missing_ok=True)
    return name
