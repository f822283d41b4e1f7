"""Records that cannot be written for a time (e.g. disk full): logged once, and the run goes on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_log = logging.getLogger(__name__)


class Gaps:
    """Lets a run go on without a record, and logs when the gap begins and ends.

    Training must not end because a line of a log cannot be written.
    """

    def __init__(self) -> None:
        self._why: dict[str, str] = {}

    @contextmanager
    def allowed(self, what: str, then: str = "it is tried again; make room") -> Iterator[None]:
        """The record ``what`` is written in this block; ``then`` says what follows if it fails."""
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
        """Why the last attempt to write this record failed; "" if it succeeded."""
        return self._why.get(what, "")
