"""Notices that a run stands still: nothing happens, and nothing is left that could happen."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from artos.errors import DeadlineExceeded
from artos.protocol.invocations import Done, Invoke
from artos.specs.keys import EVALUATION
from artos.specs.members import SET, Member
from head.run.concerns.failures import FailureLimits
from head.run.coordination.concern import NOTHING, Concern
from head.run.run import Run
from triggers.prewarm import PREWARM
from triggers.targets import parsed

_log = logging.getLogger(__name__)
_NOTICE_SECONDS = 10.0
"""A standstill is logged after this time, however long the limit of the run is."""
_BESIDE = {"actors.sync", EVALUATION, PREWARM}
"""Targets that bring no rows and no version."""


class Standstill(Concern[Run]):
    """Gives a run that stands still ``limits.stall`` seconds, and says who waits for what.

    A clock that is still to fire may end a standstill, unless it has already fired during this
    standstill in vain: no member could be invoked. Each standstill is logged once.
    """

    def __init__(self, run: Run, limits: FailureLimits) -> None:
        super().__init__(run)
        self._seconds = limits.stall
        self._told_of: float | None = None
        self._unpublished, self._starved = "", False
        self._learned = {name: learner.began for name, learner in run.learners.items()}

    def answered(self, member: Member, call: Invoke, done: Done) -> Mapping[str, Any]:
        """An update that drew no rows, or published nothing, may be why nothing goes on."""
        run, publishes = self.run, self.run.members.role(member).publishes
        if publishes and (done.nothing or call.trigger not in run.non_publishing):
            what = f"{call.trigger} (firing {call.firing})"
            if done.nothing:
                self._unpublished = f"{what} made no update: {done.nothing}"
                if not self._starved:
                    self._starved = True
                    _log.warning("%s; the next one waits for new rows", self._unpublished)
            elif done.version > self._learned[member.role]:
                self._unpublished, self._learned[member.role] = "", done.version
            else:
                self._unpublished = (
                    f"{what} returned without publishing a version: it made no step (self.step) "
                    "and did not set self.fresh = True"
                )
        return NOTHING

    def tick(self) -> None:
        """Look whether anybody works.

        Raises:
            DeadlineExceeded: the standstill has lasted too long; says who waits for what.
        """
        run = self.run
        quiet = run.ports.clock.now() - run.moved
        if quiet <= min(_NOTICE_SECONDS, self._seconds) or not self._nothing_is_left():
            return
        why = "; ".join(f"{who} waits for {what}" for who, what in run.waits().items())
        why = "; ".join(filter(None, (why, self._unpublished)))
        if quiet > self._seconds:
            raise DeadlineExceeded(f"any trigger to fire: {why}", self._seconds)
        if self._told_of != run.moved:
            self._told_of = run.moved
            _log.warning(
                "nothing has happened for %.0f s; after %g s (--deadline) the run ends: %s",
                quiet,
                self._seconds,
                why,
            )

    def _nothing_is_left(self) -> bool:
        run = self.run
        works = run.roster.anybody_works(run.invocations, but_pulls=True)
        clocks = {t for t in run.engine.clocks() - _BESIDE if parsed(t).role != SET}
        idle = not works and run.roster.all_ready(run.actors) and not run.ending.trained
        return idle and run.vain.issuperset(clocks)
