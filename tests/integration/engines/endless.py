"""`counting.py` without its book, for runs that last as long as a test needs.

A step takes a while: else such a run would need a core all the time, which others wait for.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import counting

from artos import Workload

_STEP_SECONDS = 0.01


class Patient(counting.Counter):
    def step(self, action: int) -> Any:
        time.sleep(_STEP_SECONDS)
        return super().step(action)


class Endless(counting.Bookkeeper):
    def update(self, batch: Any, call: Any) -> dict[str, float]:
        self.count += sum(claim.stop - claim.start for claim in batch.claims)
        self.fresh = True
        return {"rows": float(self.count[0])}


def make(seed: int) -> Patient:
    return Patient(seed)


def workload(actors: int = 2, total_steps: int = 0) -> Workload:
    """Its updates take rows of however many actors there are."""
    counted = counting.workload(actors, total_steps)
    update = replace(counted.triggers["learner.update"], n=None, sample=None)
    return replace(
        counted,
        name="endless",
        triggers={**counted.triggers, "learner.update": update},
        actor=counting.Walker("endless:make", envs=1),
        learner=Endless(),
    )
