"""Finds CRIU on this machine: the one asked for, the one we built, or the system's."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
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
    for binary in _candidates():
        if version_of(binary) >= LEAST:
            return _checked(binary, _AGAIN)
    raise CriuUnavailable(*_why_not())


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


def _candidates() -> Iterator[Path]:
    yield from sorted(cache_folder().glob("criu-*/bin/criu"), key=version_of, reverse=True)
    if found := shutil.which("criu"):
        yield Path(found)


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


def _why_not() -> tuple[str, str]:
    """Reason and fix, as deploy/setup/criu.sh left them if it was run."""
    try:
        reason, fix = contents(cache_folder() / "criu-missing").decode().splitlines()
    except (OSError, ValueError):
        old = shutil.which("criu")
        found = f"only {old} ({_text(version_of(Path(old)))})" if old else "none"
        return f"no CRIU from {_text(LEAST)} on was found ({found})", _AGAIN
    return reason, fix


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version)) or "does not run"
