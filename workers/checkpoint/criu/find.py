"""Finds CRIU on this machine: the one asked for, the one we built, or the system's."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from artos.errors import CriuUnavailable
from artos.system.private_folder import keep, planted
from artos.system.regular_file import contents
from artos.system.user_cache import user_cache

LEAST = (4, 1)
"""Older versions do not know how kernels since 6.13 lay out the vDSO."""

FEATURES = Path("/dev/shm/artos-criu")
"""The folder where our CRIU caches what it found out about the kernel (saves 25 ms a call)."""

_AGAIN = "artos setup criu"
_PATIENCE = 10.0


def cache_folder() -> Path:
    """The folder for things built once per user: ``$ARTOS_CACHE``, else one in the XDG cache."""
    return Path(os.environ.get("ARTOS_CACHE") or user_cache())


def find_criu() -> Path:
    """The CRIU to use: ``$ARTOS_CRIU``, else the one deploy/setup/criu.sh built, else the system's.

    Also makes the folder of its feature cache, which a reboot removes.

    Raises:
        CriuUnavailable: there is no CRIU, or it is too old; says what to do.
    """
    if asked := os.environ.get("ARTOS_CRIU"):
        return _checked(Path(asked), "unset ARTOS_CRIU, or name a newer one")
    if why := planted(cache_folder()):
        raise CriuUnavailable(why, "have ARTOS_CACHE name a folder that only you can write to")
    there = sorted(cache_folder().glob("criu-*/bin/criu"), key=version_of, reverse=True)
    systems = shutil.which("criu")
    for binary in [*there, Path(systems)] if systems else there:
        if version_of(binary) >= LEAST:
            return _checked(binary, _AGAIN)
    try:  # deploy/setup/criu.sh has left these if it was run
        reason, fix = contents(cache_folder() / "criu-missing").decode().splitlines()
    except (OSError, ValueError):
        old = f"only {systems} ({_text(version_of(Path(systems)))})" if systems else "none"
        reason, fix = f"no CRIU from {_text(LEAST)} on was found ({old})", _AGAIN
    raise CriuUnavailable(reason, fix)


@functools.cache
def version_of(binary: Path) -> tuple[int, ...]:
    """The version of a CRIU as numbers, ``(4, 1, 1)``; empty if it does not run."""
    try:
        said = subprocess.run(
            [binary, "--version"], capture_output=True, text=True, timeout=_PATIENCE, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    found = re.search(r"^Version: ([\d.]+)", said, re.MULTILINE)
    return tuple(map(int, found[1].split("."))) if found else ()


def _checked(binary: Path, fix: str) -> Path:
    if not (version := version_of(binary)):
        raise CriuUnavailable(f"{binary} does not run", fix)
    if version < LEAST:
        raise CriuUnavailable(
            f"{binary} is version {_text(version)}, {_text(LEAST)} is needed", fix
        )
    if os.geteuid() == 0:  # only root's CRIU reads the cache of features, and trusts it
        try:
            keep(FEATURES)
        except OSError as error:
            raise CriuUnavailable(str(error), f"rm -r {FEATURES}") from error
    return binary


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version)) or "does not run"
