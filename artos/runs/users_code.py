"""The files of the user's that this process has imported, and whether they are still the same."""

from __future__ import annotations

import sys
from pathlib import Path

from xxhash import xxh3_64_hexdigest

from artos.errors import ArtosError
from artos.system.regular_file import contents

_PACKAGES = {"site-packages", "dist-packages"}
"""Folders of installed packages, of which versions are recorded."""


def imported(folder: str) -> dict[str, str]:
    """The files that were imported from a folder, and their checksums."""
    found = dict[str, str]()
    for module in [*sys.modules.values()] if folder else ():
        file = getattr(module, "__file__", None)
        if file and file.endswith(".py") and Path(file).is_relative_to(folder):
            name = Path(file).relative_to(folder)
            if _PACKAGES.isdisjoint(name.parts):
                found[str(name)] = checksum_of(Path(file))
    return found


def checksum_of(file: Path) -> str:
    """Of a file of the user's; "" if it cannot be read."""
    try:
        return xxh3_64_hexdigest(contents(file))
    except (OSError, ArtosError):
        return ""
