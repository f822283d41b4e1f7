"""A table of which one learner is handed each row once, and another one draws from the same rows.

Both write down what they were given, a line of JSON each time.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from artos import A2C, RolloutActor, TorchLearner, Uniform, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger, ReplayTrigger

HERE = Path(__file__).parent
PART: list[int] = []
"""How often the run was resumed before: of this process, not of a learner, whose state is saved."""
STEPS = 16
DRAWN = ("observations", "rewards", "terminations", "truncations")
HANDED = (*DRAWN, "actions", "log_probs", "values", "bootstraps")


def note(name: str, what: Any) -> None:
    """Add a line to the file of a learner."""
    with (HERE / f"{name}.jsonl").open("a") as file:
        file.write(json.dumps(what) + "\n")


class Handed(A2C):
    """Says which rows it is handed, by actor, and how often the run was resumed before."""

    def setup(self, context: Any) -> None:
        super().setup(context)
        PART.append(context.plan.resumes)

    def update(self, batch: Any, call: Any) -> dict[str, float]:
        found = super().update(batch, call)
        note("handed", [[PART[-1], c.actor, c.start, c.stop] for c in call.claims])
        return found


class Drawing(TorchLearner):
    """Says which is the oldest row of each batch that it draws."""

    def setup(self, context: Any) -> None:
        super().setup(context)
        PART.append(context.plan.resumes)

    def update(self, batch: Any, call: Any) -> dict[str, float]:
        note("drawn", [PART[-1], int(batch.index[:, 1].min()), int(batch.index[:, 1].max())])
        self.publish()
        return {}


def mixed(total_steps: int = 4_000, capacity: int = 20_000) -> Workload:
    """Rounds for one learner, replay for the other."""
    return Workload(
        name="mixed",
        actor=RolloutActor("CartPole-v1", envs=2),
        learners={"policy": Handed(lr=1e-3), "model": Drawing(lr=1e-3)},
        triggers={
            "policy.update": DataKeyTrigger(HANDED, size=STEPS, max_lag=0),
            "model.update": ReplayTrigger(DRAWN, Uniform(64), ratio=1.0, after=100),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=2, steps=STEPS, capacity=capacity, total_steps=total_steps,
    )  # fmt: skip
