"""Turns firings of the learner's triggers into invocations, and gives rows back when it is done."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from artos.protocol.invocations import ALL, Claim, Done, Invoke
from artos.specs.configuration import MAX_LAG
from artos.specs.members import Member
from head.run.coordination.concern import NOTHING, Concern
from head.run.run import Run
from triggers.events import Firing, Learned
from triggers.setting import lags_set
from triggers.targets import parsed

_log = logging.getLogger(__name__)
_MOST_WAITING = 2
"""Invocations of one target that claim nothing: one is made, the next one waits."""


class Learning(Concern[Run]):
    """Hands the learner the rows that its triggers claimed; comes after all that look at these."""

    def fire(self, firing: Firing) -> None:
        """A trigger of the learner fired."""
        run, target = self.run, firing.trigger
        if firing.dropped:
            run.claims.claim(target, firing.dropped)
            envs, monitor = run.plan.rows_of(parsed(target).role).envs, run.monitor
            rows = sum(
                (claim.stop - claim.start) * (envs if claim.env == ALL else 1)
                for claim in firing.dropped
            )
            if firing.cut:
                monitor.rows_lost += rows
            else:
                monitor.rows_stale += rows
            self._acknowledge(target, firing.dropped)
        elif not firing.claims and self._is_busy(target):
            run.in_vain(firing)
            if target not in run.vain and run.monitor.skipped(target) == 1:
                _log.warning(
                    "%s fires faster than the learner works: while %d of its invocations are under "
                    "way, others are skipped and counted (skipped in summary.json)",
                    target, _MOST_WAITING,
                )  # fmt: skip
        elif run.admits(firing):
            used, steps = run.progress.used, run.progress.consumed
            number, (role, method), claims = firing.number, parsed(target), firing.claims
            settings, lags = run.configuration.of(role), lags_set(run.plan, run.configuration)
            settings.pop(MAX_LAG, None)  # which is one of its triggers
            call = Invoke(number, target, method, claims, progress=used, steps=steps,
                          settings=settings, configuration=run.configuration.number,
                          max_lag=lags.get(role))  # fmt: skip
            run.invoke(Member(role), call)
            run.claims.claim(target, claims)
        else:
            run.ports.journal.take_back(firing.number)

    def _is_busy(self, target: str) -> bool:
        """Whether a firing that claims nothing (so no rows are lost without it) is too early.

        A clock's waits for the last one's end; of others one more may wait, so that the learner
        goes on at once. A trigger may fire with every event, and whatever is sent to the learner is
        waited for when the run is to stop. Of those that are withheld there are no more, either.
        """
        waiting = self.run.invocations.count(Member(parsed(target).role), target)
        waiting += sum(firing.trigger == target for firing in self.run.withheld)
        return waiting >= (1 if target in self.run.engine.clocks() else _MOST_WAITING)

    def answered(self, member: Member, call: Invoke, done: Done) -> Mapping[str, Any]:
        """The learner is done with these rows."""
        if self.run.members.role(member).publishes:
            self._acknowledge(call.trigger, call.claims)
            self.run.feed(Learned(call.trigger, drew=not done.nothing))
        return NOTHING

    def _acknowledge(self, consumer: str, claims: tuple[Claim, ...]) -> None:
        """The room of these rows is free once all consumers are done with them."""
        for claim in claims:
            done = self.run.claims.done(consumer, claim)
            self.run.ports.blocks[claim.actor].acknowledge(consumer, *done)
