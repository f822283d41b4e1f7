"""Checksums of copied files, kept beside them: a head need not be asked what is damaged here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import msgspec

from artos.specs.unreadable import UNREADABLE
from artos.system.regular_file import contents, opened

_FILE = ".checksums"
_PIECE = 1 << 20
_Sums = dict[str, tuple[int, int]]
"""How many bytes of a file came, and their CRC-32: a sum that goes on when the file has grown."""


def remove_damaged(copy: Path, names: Collection[str]) -> None:
    """Remove those of these files whose bytes are others than came, or cannot be read."""
    for name, (size, crc) in _read(copy).items():
        if name in names:
            try:
                is_right = _crc(copy / name, size) == crc
            except OSError:
                is_right = False
            if not is_right:
                (copy / name).unlink(missing_ok=True)


def note(copy: Path, names: Collection[str], came: Mapping[str, int]) -> None:
    """Note the checksums of these files that ``came``, with so many bytes, or that have none yet.

    Raises:
        OSError: one cannot be read, or there is no room.
    """
    sums = _read(copy)
    if not (fresh := [name for name in names if name in came or name not in sums]):
        return
    for name in fresh:
        size = (copy / name).stat().st_size
        known = sums.get(name, (0, 0))
        start, crc = known if known[0] == size - came.get(name, size) else (0, 0)
        sums[name] = (size, _crc(copy / name, size, start, crc))
    there = {name: each for name, each in sums.items() if (copy / name).exists()}
    draft = copy / f"{_FILE}.part"
    draft.write_bytes(msgspec.json.encode(there))
    draft.replace(copy / _FILE)


def _read(copy: Path) -> _Sums:
    with suppress(OSError, *UNREADABLE):
        return msgspec.json.decode(contents(copy / _FILE), type=_Sums)
    return {}


def _crc(file: Path, stop: int, start: int = 0, crc: int = 0) -> int:
    """The CRC of a file's bytes up to ``stop``, if that up to ``start`` was ``crc``."""
    with opened(file) as data:
        data.seek(start)
        while piece := data.read(min(_PIECE, stop - data.tell())):
            crc = crc32(piece, crc)
    return crc
