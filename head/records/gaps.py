"""Records that cannot be written for a time, as when the disk is full: said once, and survived."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Gaps:
    """Lets a run go on without a record, and tells ``warn`` when that begins and when it is over.

    A training must not end because of a line of its log.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._why: dict[str, str] = {}

    @contextmanager
    def allowed(self, what: str, then: str = "it is tried again; make room") -> Iterator[None]:
        """``what`` is written in this block, or not; ``then`` says what follows from that."""
        try:
            yield
        except OSError as error:
            why = error.strerror or str(error)
            if self._why.get(what) != why:
                self._warn(f"{what} cannot be written ({why}): {then}")
            self._why[what] = why
        else:
            if self._why.pop(what, None):
                self._warn(f"{what}: written again")

    def why(self, what: str) -> str:
        """Why that could not be written when it was tried last; "" if it could."""
        return self._why.get(what, "")
