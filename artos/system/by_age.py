"""Files in a folder from which other processes remove some meanwhile, by when they changed."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def by_age(paths: Iterable[Path]) -> list[tuple[float, Path]]:
    """When each was last changed, in seconds since 1970, and its path: the oldest first.

    Those that are gone are left out.
    """
    found = list[tuple[float, Path]]()
    for path in paths:
        with suppress(FileNotFoundError):
            found.append((path.stat().st_mtime, path))
    return sorted(found)
