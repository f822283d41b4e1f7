"""What the kernel tells of a process in /proc/PID/stat."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_STATE, _STARTED = 0, 19
"""Fields behind the name, which may have spaces and brackets in it."""


class ProcessStat(NamedTuple):
    """The ``state`` of a process, a letter, and when it was ``started``: ticks since the boot."""

    state: str
    started: int

    @classmethod
    def of(cls, pid: int | str) -> ProcessStat:
        """That of a process, or of this one: ``self``.

        Raises:
            FileNotFoundError, ProcessLookupError: there is none.
        """
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return cls(fields[_STATE], int(fields[_STARTED]))
