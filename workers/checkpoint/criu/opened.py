"""Reads from an image which files its process has open or mapped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from artos.errors import CriuUnavailable
from artos.system.regular_file import contents

FILES = "files.img"
_MAGIC_BYTES = 8
_SIZE_BYTES = 4


def opened_in(folder: Path) -> list[str]:
    """Paths of the regular files that the image in ``folder`` names.

    Raises:
        CriuUnavailable: pycriu, which can read images, is not installed here.
        OSError: the image has no list of files.
    """
    entry, data = file_entry(), contents(folder / FILES)
    paths, at = [], _MAGIC_BYTES
    while at < len(data):
        start = at + _SIZE_BYTES
        at = start + int.from_bytes(data[at:start], "little")
        found = entry.FromString(data[start:at])
        if found.HasField("reg"):
            paths.append(str(found.reg.name))
    return paths


def file_entry() -> Any:
    """CRIU's message class for one file.

    Raises:
        CriuUnavailable: pycriu is not installed here.
    """
    try:
        # Not pycriu's own image reader, which fails with newer versions of protobuf.
        from pycriu.images import fdinfo_pb2  # noqa: PLC0415 (hosts without CRIU have no pycriu)
    except ImportError as error:
        raise CriuUnavailable(f"pycriu cannot be imported ({error})", "artos setup criu") from error
    return fdinfo_pb2.file_entry
