"""The example that learns from demonstrations; its learner looks whether it draws these."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import my_demos
import numpy as np

from artos import Workload


class Checking(my_demos.DQfD):
    """Fails where a batch has not as many rows of the data set as it should, or others."""

    def setup(self, context: Any) -> None:
        super().setup(context)
        with np.load(Path(__file__).with_name("demos.npz")) as rows:
            self.known = {row.tobytes() for row in rows["observations"]}
        self.picks = 32 if context.plan.actors else 64

    def losses(self, batch: Any, found: Any, wanted: Any) -> Any:
        shown = batch.of("demos")
        assert shown.sum() == self.picks
        assert {row.tobytes() for row in batch["observations"][shown]} <= self.known
        assert ((batch["policy_version"] == -1) == shown).all()
        return super().losses(batch, found, wanted)


def workload(actors: int = 1, total_steps: int = 10_000, total_updates: int = 0) -> Workload:
    made = my_demos.workload(actors=actors, total_steps=total_steps, total_updates=total_updates)
    return replace(made, learner=Checking(lr=1e-3, max_grad_norm=10.0))
