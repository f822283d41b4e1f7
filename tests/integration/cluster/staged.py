"""The algorithm that keeps book of its rows, in two stages: observations and actions come later."""

from __future__ import annotations

from typing import Any

from counting import STEPS, Bookkeeper, Walker

from artos import Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger, TransferTrigger

LATE = ("observations", "actions")


class Preparer(Bookkeeper):
    """Looks at the first stage before the second has come."""

    non_publishing = ("preprocess",)

    def setup(self, context: Any) -> None:
        super().setup(context)
        self.seen = 0

    def preprocess(self, batch: Any, call: Any) -> dict[str, float]:
        for rows in batch.gather("rewards"):
            assert (rows == 1.0).all(), "rows that are still being written were handed over"
            self.seen += rows.size
        return {"seen": float(self.seen)}


def workload(actors: int = 2, total_steps: int = 6000, chunk: int = STEPS) -> Workload:
    actor = Walker("counting:make", envs=1)
    keys = tuple(key.name for key in actor.data_keys())
    early = tuple(key for key in keys if key not in LATE)
    return Workload(
        name="staged",
        actor=actor,
        learner=Preparer(),
        triggers={
            "transfer": TransferTrigger((early, LATE), size=chunk),
            "learner.preprocess": DataKeyTrigger(early, n=1, size=STEPS),
            "learner.update": DataKeyTrigger(keys, n=actors, size=STEPS, max_lag=1),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors,
        steps=STEPS,
        total_steps=total_steps,
    )
