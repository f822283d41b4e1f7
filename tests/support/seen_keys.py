"""Where everybody may read: what processes were started with, and what they write about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_ENDS_OF_SECRETS = "*.key_secret"
_UNIT = b"deploy.launchers.unit"
_MOST = 50_000_000
"""Bytes of a file that are looked at."""


def shown(keys: Path, logs: Path) -> list[Path]:
    """The files below ``logs``, and of all processes, which hold a secret key below ``keys``.

    Environments and command lines are read by way of ``/proc``, so this needs root for processes of
    others. A head and a worker must run, so that a cluster which is not there does not pass for one
    that keeps its secrets.
    """
    secrets = [file.read_bytes().strip() for file in keys.rglob(_ENDS_OF_SECRETS)]
    assert secrets
    assert all(len(secret) == 40 for secret in secrets)
    lines = list(_read(Path("/proc").glob("[0-9]*/cmdline")))
    assert sum(_UNIT in line for _, line in lines) > 1
    places = [
        *lines,
        *_read(Path("/proc").glob("[0-9]*/environ")),
        *_read(file for file in logs.rglob("*") if file.is_file()),
    ]
    return [file for file, text in places if any(secret in text for secret in secrets)]


def _read(files: Iterator[Path]) -> Iterator[tuple[Path, bytes]]:
    for file in files:
        with suppress(OSError), file.open("rb") as opened:  # a process may have ended
            yield file, opened.read(_MOST)
