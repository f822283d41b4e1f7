"""What tells machines apart that have files in common."""

from __future__ import annotations

from pathlib import Path

from artos.system.shm import shm_root


def boot_id() -> str:
    """That of this machine since it was started."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def memory_id() -> str:
    """The shared memory of this machine, or of this container, since it was started."""
    return f"{boot_id()}.{shm_root().stat().st_dev}"
