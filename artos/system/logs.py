"""Log files of processes: kept across restarts, rotated when they grow, read from their end."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from artos.system.regular_file import opened

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

MOST_BYTES = 4 << 20
_KEPT = 2
_TAIL_BYTES = 64 << 10


def rotate(log: Path, most: int = MOST_BYTES) -> bool:
    """Move the end of a log aside once it exceeds ``most`` bytes; returns whether it did.

    ``actor-0.log`` goes to ``actor-0.log.1``, that to ``.2``. The file itself stays and is emptied,
    so a process that appends to it does not notice. On a full disk the content is lost.
    """
    try:
        if log.stat().st_size <= most:
            return False
        older = [log.with_name(f"{log.name}.{number}") for number in range(1, _KEPT + 1)]
        for source, target in zip(reversed(older[:-1]), reversed(older[1:]), strict=True):
            if source.exists():
                source.replace(target)
        try:
            older[0].write_bytes(end(log, most))
        except OSError:
            older[0].unlink(missing_ok=True)  # the disk is full, maybe because of this log
        os.truncate(log, 0)
    except FileNotFoundError:
        return False
    return True


def piece(log: Path, offset: int, most: int) -> tuple[bytes, int]:
    """At most ``most`` bytes of a log from ``offset`` on, and where the next ones begin.

    A negative offset counts from the end. An offset beyond the end dates from before the log was
    emptied: then it is read from its start. A log that does not exist (yet) has no bytes. If there
    is more than ``most``, a piece ends with a whole line, unless a line alone is longer.
    """
    try:
        with opened(log) as file:
            size = file.seek(0, os.SEEK_END)
            wanted = max(0, size + offset) if offset < 0 else offset
            start = file.seek(wanted if wanted <= size else 0)
            data = file.read(most)
        if start + len(data) < size:
            data = data[: data.rfind(b"\n") + 1] or data
    except (OSError, ValueError):
        return b"", max(0, offset)
    return data, start + len(data)


def tail(log: Path, lines: int) -> list[str]:
    """The last lines of a log, none if there is no log to read; at most its last 64 KB are read."""
    try:
        written = end(log, _TAIL_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return []
    return written[-lines:]


class _Lossy(io.FileIO):
    """Counts output that the disk has no room for as written."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(memoryview(data).cast("B"))


def print_whatever_happens() -> None:
    """Keep output from ever raising: a ``print`` must not end this process when a disk is full.

    Its output reaches the log line by line, so that the log can be followed.
    """
    for name, number in (("stdout", 1), ("stderr", 2)):
        getattr(sys, name).flush()
        raw = io.BufferedWriter(_Lossy(number, "wb", closefd=False))
        stream = io.TextIOWrapper(raw, "utf-8", errors="backslashreplace", line_buffering=True)
        setattr(sys, name, stream)


def end(log: Path, most: int) -> bytes:
    """The last bytes of a log, ``most`` at most."""
    with opened(log) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most))
        return file.read(most)
