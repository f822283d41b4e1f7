"""Which versions of the weights are evaluated, and what that found."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from artos.buffer.object_region import ObjectRegion
from artos.protocol.invocations import Done, Invoke
from artos.specs.keys import EVALUATION, OTHER_VERSIONS, read_as
from artos.specs.members import EVALUATOR, Member
from artos.system.exit_report import ExitReport
from head.records.evaluations import Evaluated
from head.run.concerns.failures import FailureLimits, Failures
from head.run.coordination.concern import NOTHING, Concern
from head.run.run import Run
from triggers.events import Firing
from triggers.targets import parsed

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Due:
    """A version to be played: its weights, and the run's steps and updates when it was due."""

    call: Invoke
    version: int
    steps: int
    updates: int
    arrays: Mapping[str, NDArray[Any]]


class Evaluation(Concern[Run]):
    """The evaluator plays one version at a time; of those that are due meanwhile the newest waits.

    A version is copied when it is due, as the learner goes on; it is handed over when it is played.
    """

    def __init__(self, run: Run, limits: FailureLimits) -> None:
        super().__init__(run)
        self.member, self._failures = next(iter(run.members.of(EVALUATOR)), None), Failures(limits)
        self.found: list[Evaluated] = []
        """All evaluations of the run."""
        self.best: Evaluated | None = None
        """The first of those with the highest mean return."""
        self.unsaved: Due | None = None
        """The weights that it played, until ``saved`` is called."""
        self.skipped = 0
        """How many versions were due and not played."""
        self.failure = ""
        """Why there are no more evaluations; "" if there are."""
        self._waiting: Due | None = None
        self._playing: Due | None = None
        self._asked = -1

    def resumed(self, found: Sequence[Evaluated], best: Evaluated | None) -> None:
        """Go on after those that earlier parts of the run made; the best one's weights are kept."""
        self.found, self.best = [*found], best
        self._asked = max((each.version for each in found), default=-1)

    def begin(self) -> None:
        """Hand the evaluator again what it was playing when the run was saved, or what waited."""
        if self._playing is not None:
            self._hand_over(self._playing)
        self._play()

    @property
    def _closed(self) -> bool:
        return self.member is None or self.run.ending.draining or bool(self.failure)

    # -- which versions ------------------------------------------------------------------------

    def fire(self, firing: Firing) -> None:
        """A version is due to be evaluated: it is played once the evaluator is free."""
        if self._lacks_newest():
            if (skipped := self._waiting) is not None:
                self.skipped += 1
                if self.skipped == 1:
                    _log.warning(
                        "version %d is not evaluated, as version %d still plays when the next one "
                        "is due; raise evaluate_every, or lower evaluation_episodes (said once, "
                        "counted in the summary)",
                        skipped.version,
                        self._playing.version if self._playing else skipped.version,
                    )
            self._waiting = self._copied(firing)
            self._asked = self._waiting.version
            self._play()
        else:
            self.run.ports.journal.take_back(firing.number)

    def _lacks_newest(self) -> bool:
        return not self._closed and self.run.published > self._asked

    def trained(self) -> bool:
        """The version that training ends with is due, whatever its number: until it is played."""
        if self._lacks_newest():
            self.run.engine.fire(EVALUATION, Firing(version=self.run.published))
        return self._playing is None and (self._waiting is None or self._closed)

    def _copied(self, firing: Firing) -> Due:
        run, model = self.run, self.run.ports.model
        updates = run.first.updates_through(model.made_by()[1])
        call = Invoke(
            firing.number, firing.trigger, parsed(firing.trigger).method,
            progress=run.progress.used, steps=run.progress.consumed,
        )  # fmt: skip
        version, arrays = self._public(model)
        for name in run.plan.read_learners:
            made, others = self._public(run.learners[name].model)
            arrays |= {read_as(each, name): array for each, array in others.items()}
            arrays[OTHER_VERSIONS + name] = np.array(made)
        return Due(call, version, run.steps, updates, arrays)

    def _public(self, model: ObjectRegion) -> tuple[int, dict[str, NDArray[Any]]]:
        """The newest version, and copies of what actors have of it."""
        reader = self.run.plan.actors
        slot = model.pin(reader)
        try:
            return slot.version, {a.name: slot.arrays[a.name].copy() for a in model.spec.public}
        finally:
            model.unpin(reader)

    # -- what is played ------------------------------------------------------------------------

    def _play(self) -> None:
        """Have the version that waits evaluated, if the evaluator is free."""
        if self._playing is not None or self._waiting is None or self._closed:
            return
        due, self._waiting = self._waiting, None
        self._hand_over(due)
        assert self.member is not None
        self.run.invoke(self.member, due.call)

    def _hand_over(self, due: Due) -> None:
        handed = self.run.ports.evaluated
        assert handed is not None
        slot = handed.allocate()
        for name, array in due.arrays.items():
            np.copyto(slot.arrays[name], array)
        handed.commit(slot, due.version, due.call.firing)
        self._playing = due

    def answered(self, member: Member, call: Invoke, done: Done) -> Mapping[str, Any]:
        """The evaluator has played."""
        if member != self.member:
            return NOTHING
        assert self._playing is not None
        due, self._playing = self._playing, None
        self._failures.answered(member)
        self.found.append(found := Evaluated.of(done, due.steps, due.updates))
        if found.mean_return > (self.best.mean_return if self.best else -math.inf):
            self.best, self.unsaved = found, due
        self.run.monitor.times.spend(member, done.times)
        self._play()
        return {"version": found.version, "mean_return": found.mean_return}

    def failed(self, member: Member, death: ExitReport) -> None:
        """The evaluator died; if it did so too often, the run goes on without."""
        if member != self.member:
            return
        if not self._failures.hopeless(member, death):
            self._failures.count(member, death, self.run.version)
            return
        self.run.invocations.drop(member)
        self.run.roster.gone.add(member)
        self._playing, self.failure = None, death.why
        last = death.why.strip().splitlines()[-1]
        _log.warning("there are no more evaluations, training goes on: %s", last)

    def saved(self) -> None:
        """The weights of the best one are kept."""
        self.unsaved = None

    def newest(self) -> dict[str, float]:
        """The newest evaluation in numbers; empty before the first."""
        if not self.found:
            return {}
        last = self.found[-1]
        return {
            "version": last.version,
            "mean_return": last.mean_return,
            "std": last.std,
            "skipped": self.skipped,
        }

    def __repr__(self) -> str:
        playing = self._playing.version if self._playing else None
        return f"<Evaluation {len(self.found)} made, version {playing} plays>"
