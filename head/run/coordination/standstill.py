"""Notices that a run stands still: nothing happens, and nothing will that could change that."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from artos.errors import DeadlineExceeded
from artos.protocol.invocations import Invoke
from head.run.coordination.failures import Limits

_log = logging.getLogger(__name__)
_NOTICE_SECONDS = 30.0
"""After so long people are told, however patient the run is."""


class Standstill:
    """Gives a run that stands still ``limits.stall`` seconds, and says who waits for what.

    A clock that is still to fire may set things going again, unless it has fired since anything
    happened and nobody could be asked for anything. It is logged once a standstill.
    """

    def __init__(self, limits: Limits, now: float) -> None:
        self._seconds = limits.stall
        self._since, self._told = now, False
        self._vain: set[str] = set()
        self._fruitless = ""

    def moved(self, now: float) -> None:
        """Something happened: rows, a version, a report."""
        self._since, self._told = now, False
        self._vain.clear()

    def in_vain(self, trigger: str) -> None:
        """A clock fired, and nobody could be asked for anything."""
        self._vain.add(trigger)

    def updated(self, call: Invoke, published: bool) -> None:
        """The learner is done with an update."""
        self._fruitless = ""
        if not published:
            what = f"{call.trigger} (firing {call.firing})"
            self._fruitless = (
                f"{what} returned without publishing a version: it made no step (self.step)"
            )

    def check(
        self, now: float, clocks: Collection[str], waits: Callable[[], Mapping[str, str]]
    ) -> None:
        """Nobody has anything to do at ``now``; ``clocks`` are the triggers that fire by the clock.

        Raises:
            DeadlineExceeded: that has been so for too long; says who waits for what.
        """
        quiet = now - self._since
        if quiet <= min(_NOTICE_SECONDS, self._seconds) or not self._vain.issuperset(clocks):
            return
        why = "; ".join(f"{who} waits for {what}" for who, what in waits().items())
        why = "; ".join(filter(None, (why, self._fruitless)))
        if quiet > self._seconds:
            raise DeadlineExceeded(f"any trigger to fire: {why}", self._seconds)
        if not self._told:
            self._told = True
            _log.warning(
                "nothing has happened for %.0f s, the run ends after %g s of that (--deadline): %s",
                quiet,
                self._seconds,
                why,
            )

    def __repr__(self) -> str:
        return f"<Standstill since={self._since} vain={sorted(self._vain)}>"
