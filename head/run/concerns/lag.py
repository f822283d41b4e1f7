"""Policy lag: how old the rows are that learners learn from, and the weights of actors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from artos.protocol.invocations import Done, Invoke
from artos.specs.keys import OTHER_VERSIONS
from artos.specs.members import Member
from head.run.coordination.concern import NOTHING, Concern
from head.run.monitor import lags_of_claims
from head.run.run import Run
from triggers.events import Event


class Lag(Concern[Run]):
    """Measures lag where rows are learned from, and where a round ends with a new version."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._learned = {name: learner.began for name, learner in run.learners.items()}

    def happened(self, event: Event) -> None:
        """A new version ends the round of the one before, which actors have bound by now."""
        run = self.run
        if not run.is_version(event):
            return
        if (ended := event.version - 1) >= run.first_version:
            held = [run.held[actor] for actor in run.actors]
            run.monitor.took_part(len(held))
            if min(held, default=-1) >= 0:
                run.monitor.round_ended(ended, held)

    def answered(self, member: Member, call: Invoke, done: Done) -> Mapping[str, Any]:
        """The lags of the rows of an update, which starts from the version before its own.

        Rows that an invocation only prepared are handed to the update that follows, too.
        """
        if not self.run.members.role(member).publishes:
            return NOTHING
        run, prepares = self.run, call.trigger in self.run.non_publishing
        run.monitor.rows_stale += done.stale
        used = () if done.unread or prepares else call.claims
        version, envs = self._learned[member.role], run.plan.rows_of(member.role).envs
        if not (done.nothing or prepares):
            self._learned[member.role] = done.version
        if member.role == run.first.member.role:
            lags = lags_of_claims(run.ports.blocks, used, version, envs)
            return run.monitor.learned_from(lags, done.drawn)
        if member.role not in run.plan.read_learners:  # no version of its acted
            return NOTHING
        key = OTHER_VERSIONS + member.role
        lags = lags_of_claims(run.ports.blocks, used, version, envs, key)
        return run.monitor.beside[member.role].learned_from((*lags, *done.drawn))
