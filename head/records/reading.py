"""Errors of reading records name the damaged file."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from artos.errors import Refused
from artos.specs.unreadable import UNREADABLE


class DamagedRecord(Refused):
    """A file of a run's records cannot be read or understood. ``path`` is the file."""

    def __init__(self, path: Path, why: str) -> None:
        self.path, self.why = path, why
        super().__init__([f"{path} {why}"])


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors in this block, which reads ``path``, into ``DamagedRecord``.

    Raises:
        DamagedRecord: the file is damaged, or cannot be read.
    """
    try:
        yield
    except OSError as error:
        raise DamagedRecord(path, f"cannot be read: {error.strerror}") from error
    except (ValueError, LookupError, TypeError, csv.Error, *UNREADABLE) as error:
        why = f"is damaged ({type(error).__name__}: {error}): restore it from a copy"
        raise DamagedRecord(path, why) from error
