"""What runs have in the shared memory of an engine's machines: folders, by their names.

A machine on which all was killed at once keeps what was there until something of ours starts on it,
so a test asserts it only of clusters whose units ended by themselves.
"""

from __future__ import annotations

from pathlib import Path

from artos.buffer.shm_folder import PREFIX
from evaluation.lab.layer import Layer


def under(*roots: Path) -> set[str]:
    """In machines whose shared memory is in these folders of this one."""
    return {folder.name for root in roots for folder in root.glob(f"{PREFIX}*")}


def within(there: Layer) -> set[str]:
    """In all machines of a layer, which have shared memory of their own."""
    look = 'for each in /proc/[0-9]*; do ls "${each}/root/dev/shm"; done 2>/dev/null; true'
    return {name for name in there.run("sh", "-c", look).split() if name.startswith(PREFIX)}
