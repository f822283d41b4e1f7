"""Facts about an image, its process and its host; kept with it, compared before a restore."""

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
    """The properties of a machine that images depend on."""

    criu: str
    """CRIU's version."""
    kernel: str
    machine: str
    """The processor's architecture."""
    layout: int
    """The version of the layout of blocks."""
    libraries: Mapping[str, str]
    """Build ids of libraries, by path."""
    features: tuple[str, ...] = ()
    """The processor's, as the kernel names them: a process may use any of them."""

    @classmethod
    def here(cls, criu: str, libraries: Iterable[str]) -> Host:
        """This machine, with the build ids of those libraries that exist here."""
        ids = {path: found for path in libraries if (found := build_id(path)) is not None}
        kernel, machine = os.uname().release, platform.machine()
        return cls(criu, kernel, machine, LAYOUT_VERSION, ids, features_of(_CPUS))


class Facts(msgspec.Struct, frozen=True):
    """The facts about an image."""

    host: Host
    """The host it was taken on."""
    block: str = ""
    """The path of the actor's block."""
    actor: int = -1
    """The actor's number; -1: the process is not an actor's."""
    step: int = 0
    """Rows that the actor had committed."""
    policy_version: int = 0
    """The version that the actor had sampled with."""
    files: Mapping[str, int] = {}
    """Bytes of each file, by name; filled in when the image is sealed."""
    sums: Mapping[str, str] = {}
    """Checksums of the files other than memory pages, by name; filled in at the same time."""
    created: float = 0.0
    """Seconds since 1970."""

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
            OSError: the process is gone, or this user may not look into it.
        """
        host = Host.here(criu, mapped_files(pid))
        return cls(host, block, actor, step, policy_version, created=time.time())


@functools.cache
def features_of(cpus: Path) -> tuple[str, ...]:
    """The features of the first processor that the kernel's file ``cpus`` lists."""
    for line in cpus.read_text().splitlines():
        name, _, words = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return tuple(sorted(words.split()))
    return ()


def faults(facts: Facts, here: Host) -> list[str]:
    """Every reason why an image with these facts must not be restored on ``here``."""
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
