"""The rows of a ``progress.csv`` as they come, each once."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

from artos.protocol.views import Status
from artos.system.regular_file import opened
from head.records.progress_log import status_of
from head.records.reading import reading

_MOST = 8 << 20
"""Bytes that are read at a time."""


class NewRows:
    """Reads on where it was; where the file was replaced, from its begin."""

    def __init__(self, path: Path) -> None:
        self._path, self._file, self._at, self._header = path, 0, 0, b""

    def read(self) -> list[Status]:
        """What is new, up to some megabytes; nothing where there is no file yet.

        Raises:
            DamagedRecord: the file cannot be read or understood.
        """
        if not self._path.exists():
            return []
        with reading(self._path):
            with opened(self._path) as file:
                about = os.fstat(file.fileno())
                if about.st_ino != self._file or about.st_size < self._at:
                    self._header = file.readline()
                    self._file, self._at = about.st_ino, len(self._header)
                file.seek(self._at)
                text = file.read(_MOST)
            text = text[: text.rfind(b"\n") + 1]
            self._at += len(text)
            lines = io.StringIO((self._header + text).decode())
            return [status_of(row) for row in csv.DictReader(lines, restkey="")]
