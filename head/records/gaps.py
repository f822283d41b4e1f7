"""Records that cannot be written for a time, as when the disk is full: said once, and survived."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_log = logging.getLogger(__name__)


class Gaps:
    """Lets a run go on without a record, and logs when that begins and when it is over.

    A training must not end because of a line of its log.
    """

    def __init__(self) -> None:
        self._why: dict[str, str] = {}

    @contextmanager
    def allowed(self, what: str, then: str = "it is tried again; make room") -> Iterator[None]:
        """``what`` is written in this block, or not; ``then`` says what follows from that."""
        try:
            yield
        except OSError as error:
            why = error.strerror or str(error)
            if self._why.get(what) != why:
                _log.warning("%s cannot be written (%s): %s", what, why, then)
            self._why[what] = why
        else:
            if self._why.pop(what, None):
                _log.info("%s: written again", what)

    def why(self, what: str) -> str:
        """Why that could not be written when it was tried last; "" if it could."""
        return self._why.get(what, "")
