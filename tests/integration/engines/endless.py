"""`counting.py` without its book, for runs that last as long as a test needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import counting

from artos import Workload


class Endless(counting.Bookkeeper):
    def update(self, batch: Any, call: Any) -> dict[str, float]:
        self.count += sum(claim.stop - claim.start for claim in batch.claims)
        self.fresh = True
        return {"rows": float(self.count[0])}


def workload(actors: int = 2, total_steps: int = 0) -> Workload:
    return replace(counting.workload(actors, total_steps), name="endless", learner=Endless())
