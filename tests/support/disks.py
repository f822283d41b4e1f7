"""Disks that are full for real: small filesystems in memory, mounted for a test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

needs_mount = pytest.mark.skipif(
    os.geteuid() != 0
    or subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode,
    reason="only who may mount has a disk that can be filled",
)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """An empty filesystem of that ``size`` (as mount has it: 256k) at a new folder."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
    subprocess.run(command, check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
        folder.rmdir()


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """Nothing more fits on a disk in this block, not even a byte."""
    filler = disk / ".filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            _fill(file.fileno(), bytes(size))
    try:
        yield
    finally:
        filler.unlink()


def _fill(descriptor: int, piece: bytes) -> None:
    with pytest.raises(OSError, match=r"No space left"):  # noqa: PT012 (the one that fails)
        while True:
            os.write(descriptor, piece)
