"""What an image was taken of and where: kept beside it, compared before it is restored."""

from __future__ import annotations

import functools
import os
import platform
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from artos.buffer.layout import LAYOUT_VERSION
from workers.checkpoint.build_id import build_id, mapped_files

_CPUS = Path("/proc/cpuinfo")


class Host(msgspec.Struct, frozen=True):
    """What a machine offers an image: versions, and the build id of each library by its path.

    ``features`` are those of its processor, as the kernel names them: a process may use any.
    """

    criu: str
    kernel: str
    machine: str
    layout: int
    libraries: Mapping[str, str]
    features: tuple[str, ...] = ()

    @classmethod
    def here(cls, criu: str, libraries: Iterable[str]) -> Host:
        """This machine, with those of the libraries that it has."""
        ids = {path: found for path in libraries if (found := build_id(path)) is not None}
        kernel, machine = os.uname().release, platform.machine()
        return cls(criu, kernel, machine, LAYOUT_VERSION, ids, features_of(_CPUS))


class Facts(msgspec.Struct, frozen=True):
    """What must be known of an image: where it fits, its actor, how large its files are.

    ``step`` and ``policy_version`` are the actor's at the dump, ``block`` the path of its block,
    ``files`` bytes by name, ``sums`` checksums of those that are no memory pages (both filled in
    when the image is sealed), ``created`` seconds since 1970.
    """

    host: Host
    block: str = ""
    actor: int = -1
    step: int = 0
    policy_version: int = 0
    files: Mapping[str, int] = {}
    sums: Mapping[str, str] = {}
    created: float = 0.0

    @classmethod
    def of(
        cls,
        pid: int,
        criu: str,
        *,
        block: str = "",
        actor: int = -1,
        step: int = 0,
        policy_version: int = 0,
    ) -> Facts:
        """The facts of a live process that is about to be dumped by that version of CRIU.

        Raises:
            OSError: the process is gone, or is not ours to look into.
        """
        host = Host.here(criu, mapped_files(pid))
        return cls(host, block, actor, step, policy_version, created=time.time())


@functools.cache
def features_of(cpus: Path) -> tuple[str, ...]:
    """What the first processor can do of which that file of the kernel's tells."""
    for line in cpus.read_text().splitlines():
        name, _, words = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return tuple(sorted(words.split()))
    return ()


def faults(facts: Facts, here: Host) -> list[str]:
    """Every reason why an image with these facts must not be restored on that host, in words."""
    was = facts.host
    pairs = (
        ("CRIU", was.criu, here.criu),
        ("the kernel", was.kernel, here.kernel),
        ("the processor", was.machine, here.machine),
        ("the layout of blocks", was.layout, here.layout),
    )
    found = [
        f"{what} is {now}, the image was taken with {then}"
        for what, then, now in pairs
        if then != now
    ]
    if lacking := sorted({*was.features} - {*here.features}):
        found.append(f"the processor lacks {' '.join(lacking)}")
    for path, build in sorted(was.libraries.items()):
        if path not in here.libraries:
            found.append(f"the library {path} is gone")
        elif here.libraries[path] != build:
            found.append(f"the library {path} is another build than in the image")
    return found
