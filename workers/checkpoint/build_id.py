"""Identifies the build of a mapped library by the id that its linker wrote into it."""

from __future__ import annotations

import struct
from pathlib import Path
from stat import S_ISREG

from artos.system.regular_file import opened

_HEAD = 4096
"""Bytes that hold the ELF header, the program headers and, nearly always, the notes."""
_PT_NOTE = 4
_NT_GNU_BUILD_ID = 3
_KNOWN: dict[tuple[int, int, int, int], str] = {}


def build_id(path: str | Path) -> str | None:
    """The GNU build id of a file in hex, or its size and time of change if it has none.

    None if there is no such file. Results are cached by inode, size and time of change.
    """
    try:
        stat = Path(path).stat()
    except (OSError, ValueError):
        return None
    if not S_ISREG(stat.st_mode):
        return None  # a peer may have named any path, and opening a pipe would wait
    key = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    if key not in _KNOWN:
        _KNOWN[key] = _read(Path(path)) or f"size {stat.st_size}, changed {stat.st_mtime_ns}"
    return _KNOWN[key]


def mapped_files(pid: int) -> set[str]:
    """Files whose code the process has mapped.

    Raises:
        OSError: the process is gone, or this user may not look into it.
    """
    found = set()
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        # Address, rights, offset, device, inode, path; anonymous memory and [vdso] have no "/".
        if "x" in line.split(" ", 2)[1] and "/" in line and not line.endswith(" (deleted)"):
            found.add(line[line.index("/") :])
    return found


def _read(path: Path) -> str:
    """The id in the file's notes; empty if it is no 64-bit ELF file or has none."""
    try:
        with opened(path) as file:
            head = file.read(_HEAD)
            if head[:5] != b"\x7fELF\x02":
                return ""
            (table,) = struct.unpack_from("<Q", head, 32)
            entry, count = struct.unpack_from("<HH", head, 54)
            for number in range(count):
                kind, _flags, offset, _at, _physical, size = struct.unpack_from(
                    "<IIQQQQ", head, table + number * entry
                )
                if kind == _PT_NOTE:
                    file.seek(offset)
                    if found := _in_notes(file.read(size)):
                        return found
    except (OSError, struct.error):
        pass
    return ""


def _in_notes(notes: bytes) -> str:
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, at)
        name = at + 12
        start = name + (name_size + 3) // 4 * 4
        if kind == _NT_GNU_BUILD_ID and notes[name : name + 4] == b"GNU\0":
            return notes[start : start + size].hex()
        at = start + (size + 3) // 4 * 4
    return ""
