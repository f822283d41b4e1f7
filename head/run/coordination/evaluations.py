"""Which versions of the weights are evaluated, and what that found."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from artos.buffer.model_block import ObjectRegion
from artos.plan import Plan
from artos.protocol.invocations import Done, Invoke
from head.records.evaluations import Evaluated

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Due:
    """A version to be played: its weights, and the run's steps and updates, when it was due."""

    call: Invoke
    version: int
    steps: int
    updates: int
    arrays: Mapping[str, NDArray[Any]]


class Evaluations:
    """The evaluator plays one version at a time; of those that are due meanwhile the newest waits.

    A version is copied when it is due, as the learner goes on; it is handed over when it is played.
    ``found`` has all evaluations of the run, ``skipped`` counts versions that were due and not
    played, ``failed`` says why there are no more of them; "" if there are.
    """

    kept: ClassVar[tuple[str, ...]] = (
        "found",
        "skipped",
        "failed",
        "_waiting",
        "_playing",
        "_asked",
    )

    def __init__(self, plan: Plan, model: ObjectRegion, handed: ObjectRegion | None) -> None:
        self.member = plan.evaluator
        self._model, self._handed, self._reader = model, handed, plan.actors
        self.found: list[Evaluated] = []
        self.skipped, self.failed = 0, ""
        self._waiting: Due | None = None
        self._playing: Due | None = None
        self._asked, self._closed = -1, handed is None

    def resumed(self, found: Sequence[Evaluated]) -> None:
        """Go on after those that earlier parts of the run made."""
        self.found = [*found]
        self._asked = max((each.version for each in found), default=-1)

    def lacks(self, version: int) -> bool:
        """Whether this version was never due."""
        return not self._closed and version > self._asked

    @property
    def settled(self) -> bool:
        """Whether no version is played, or waits to be."""
        return self._playing is None and (self._waiting is None or self._closed)

    def ask(self, call: Invoke, steps: int, updates: int) -> bool:
        """The newest version is due, after so many steps and updates; False if it was before."""
        if not self.lacks(self._model.version):
            return False
        if self._waiting is not None:
            self._skip(self._waiting)
        self._waiting = due = self._copied(call, steps, updates)
        self._asked = due.version
        return True

    def _copied(self, call: Invoke, steps: int, updates: int) -> Due:
        slot = self._model.pin(self._reader)
        try:
            arrays = {a.name: slot.arrays[a.name].copy() for a in self._model.spec.public}
        finally:
            self._model.unpin(self._reader)
        return Due(call, slot.version, steps, updates, arrays)

    def _skip(self, due: Due) -> None:
        self.skipped += 1
        if self.skipped == 1:
            _log.warning(
                "version %d is not evaluated, as version %d still plays when the next one is due; "
                "raise evaluate_every, or lower evaluation_episodes (said once, counted in the "
                "summary)",
                due.version,
                self._playing.version if self._playing else due.version,
            )

    def begin(self) -> Invoke | None:
        """Hand the waiting version over if the evaluator is free; returns its invocation."""
        if self._playing is not None or self._waiting is None or self._closed:
            return None
        due, self._waiting = self._waiting, None
        self._hand_over(due)
        return due.call

    def _hand_over(self, due: Due) -> None:
        assert self._handed is not None
        slot = self._handed.allocate()
        for name, array in due.arrays.items():
            np.copyto(slot.arrays[name], array)
        self._handed.commit(slot, due.version, due.call.firing)
        self._playing = due

    def answered(self, done: Done) -> Evaluated:
        """The evaluator has played."""
        assert self._playing is not None
        due, self._playing = self._playing, None
        self.found.append(evaluated := Evaluated.of(done, due.steps, due.updates))
        return evaluated

    def close(self) -> None:
        """The run is to end: finish what is played, begin no more."""
        self._closed = True

    def go_on(self, taken: dict[str, Any]) -> None:
        """Go on from a snapshot: what was played is handed over again."""
        for name in self.kept:
            setattr(self, name, taken[name])
        if self._playing is not None:
            self._hand_over(self._playing)

    def give_up(self, why: str) -> None:
        """The evaluator failed too often: the run goes on without."""
        self.close()
        self._playing, self.failed = None, why
        last = why.strip().splitlines()[-1]
        _log.warning("there are no more evaluations, training goes on: %s", last)

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
        return f"<Evaluations {len(self.found)} made, version {playing} plays>"
