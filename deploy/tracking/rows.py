"""The rows of a CSV of a run as they come, each once."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from artos.system.regular_file import opened
from head.records.progress_log import Row
from head.records.reading import reading

T = TypeVar("T")
_MOST = 8 << 20
"""Bytes that are read at a time."""


class NewRows(Generic[T]):
    """Reads on where it was; where the file was replaced, from its begin, and then is ``anew``."""

    def __init__(self, path: Path, of: Callable[[Row], T]) -> None:
        self._of = of
        self._path, self._file, self._at = path, 0, 0
        self._header = self._last = b""
        self.anew = False

    def read(self) -> list[T]:
        """What is new, up to some megabytes; nothing where there is no file yet.

        Raises:
            DamagedRecord: the file cannot be read or understood.
        """
        self.anew = False
        if not self._path.exists():
            return []
        with reading(self._path):
            with opened(self._path) as file:
                number, header = os.fstat(file.fileno()).st_ino, file.readline()
                file.seek(max(0, self._at - len(self._last)))
                # A new file may have the number of one that is gone; what was read it has not.
                was_read = file.read(len(self._last)) == self._last
                if number != self._file or header != self._header or not was_read:
                    self._file, self._header, self._last = number, header, header
                    self._at, self.anew = len(header), True
                file.seek(self._at)
                text = file.read(_MOST)
            text = text[: text.rfind(b"\n") + 1]
            self._at += len(text)
            self._last = next(reversed(text.splitlines(keepends=True)), self._last)
            lines = io.StringIO((self._header + text).decode())
            return [self._of(row) for row in csv.DictReader(lines, restkey="")]
