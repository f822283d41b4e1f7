"""Notices that a run stands still: nothing happens, and nothing is left that could happen."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from artos.errors import DeadlineExceeded
from artos.protocol.invocations import Invoke
from head.run.coordination.failures import FailureLimits

_log = logging.getLogger(__name__)
_NOTICE_SECONDS = 30.0
"""A standstill is logged after this time, however long the limit of the run is."""


class Standstill:
    """Gives a run that stands still ``limits.stall`` seconds, and says who waits for what.

    A clock that is still to fire may end a standstill, unless it has already fired during this
    standstill in vain: no member could be invoked. Each standstill is logged once.
    """

    def __init__(self, limits: FailureLimits, now: float) -> None:
        self._seconds = limits.stall
        self._since, self._told = now, False
        self._vain: set[str] = set()
        self._unpublished, self._starved = "", False

    def moved(self, now: float) -> None:
        """Something happened: rows, a version, a report."""
        self._since, self._told = now, False
        self._vain.clear()

    def in_vain(self, trigger: str) -> None:
        """A clock fired, and no member could be invoked."""
        self._vain.add(trigger)

    def found_nothing(self, call: Invoke, why: str) -> None:
        """The learner had nothing to draw for an update; logged once in a run."""
        self._unpublished = f"{call.trigger} (firing {call.firing}) made no update: {why}"
        if not self._starved:
            self._starved = True
            _log.warning("%s; the next one waits for new rows", self._unpublished)

    def updated(self, call: Invoke, published: bool) -> None:
        """The learner is done with an update."""
        self._unpublished = ""
        if not published:
            what = f"{call.trigger} (firing {call.firing})"
            self._unpublished = (
                f"{what} returned without publishing a version: it made no step (self.step)"
            )

    def check(
        self, now: float, clocks: Collection[str], waits: Callable[[], Mapping[str, str]]
    ) -> None:
        """No member works at ``now``; ``clocks`` are the triggers that fire by the clock.

        Raises:
            DeadlineExceeded: the standstill has lasted too long; says who waits for what.
        """
        quiet = now - self._since
        if quiet <= min(_NOTICE_SECONDS, self._seconds) or not self._vain.issuperset(clocks):
            return
        why = "; ".join(f"{who} waits for {what}" for who, what in waits().items())
        why = "; ".join(filter(None, (why, self._unpublished)))
        if quiet > self._seconds:
            raise DeadlineExceeded(f"any trigger to fire: {why}", self._seconds)
        if not self._told:
            self._told = True
            _log.warning(
                "nothing has happened for %.0f s; after %g s (--deadline) the run ends: %s",
                quiet,
                self._seconds,
                why,
            )

    def __repr__(self) -> str:
        return f"<Standstill since={self._since} vain={sorted(self._vain)}>"
