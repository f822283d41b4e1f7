"""Runs of every member in this process, in an order that a test chooses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import inline_runs
from hands import SMALL
from named import LEARNER

from artos.protocol.invocations import Invoke
from artos.specs.members import Member
from deploy.local.inline import Inline
from triggers.registration import Registration


class LearnerFirst(Inline):
    """The learner has done what it was told before any other actor acts, as if it were fast."""

    first = staticmethod(lambda member: member == LEARNER)

    def queue(self, member: Member, call: Invoke) -> None:
        """Queue an invocation behind those that go first, if it does, else at the end."""
        places = range(len(self._queue))
        later = (i for i in places if not self.first(self._queue[i][0]))
        at = next(later, len(self._queue)) if self.first(member) else len(self._queue)
        self._queue.insert(at, (member, call))


class ActorsFirst(LearnerFirst):
    """Actors have sampled all they may before the learner does anything."""

    first = staticmethod(lambda member: member != LEARNER)


def registered(folder: Path, **settings: Any) -> Registration:
    """PPO, small, in this process."""
    return inline_runs.registered("ppo", folder, **SMALL | settings)
