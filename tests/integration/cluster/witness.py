"""An algorithm whose rows tell what the weights were that they were sampled with.

All weights of a version have the same value, and a row's ``values`` is that value, or -1 if they
differ: torn, mixed or damaged weights show.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from counting import Bookkeeper, Still, Walker

from artos import Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger, TimeTrigger

MOST, PARAMS = 40_000, 150_000
"""Rows there is room for; as many parameters as travel in two pieces."""

CHANCE, SEED, EVERY = 0.5, 11, 3


def told_by(version: int) -> float:
    """The value of the weights of a version; bfloat16 rounds it."""
    return float(np.float32(version + 1 / 3))


class Witness(Still):
    """Says what its weights are."""

    def bind(self, flat: Any) -> None:
        told = flat[0] if (flat == flat[0]).all() else -1.0
        self.output["values"] = np.full(len(self.output["actions"]), told, np.float32)


class Watched(Walker):
    """An actor with that policy."""

    def make_policy(self, module: Any, seed: int) -> Any:
        return Witness(self.envs)


class Clerk(Bookkeeper):
    """Its book has of each row: actor, step, policy version, what the row told, its own version."""

    parameters = PARAMS

    def setup(self, context: Any) -> None:
        super().setup(context)
        self.params.fill(told_by(0))
        self.book = np.zeros((MOST, 5))
        self.count = np.zeros(2, np.int64)  # rows, versions

    def update(self, batch: Any, call: Any) -> dict[str, float]:
        told, versions = batch.gather("values"), batch.gather("policy_version")
        for at, claim in enumerate(batch.claims):
            for row, step in enumerate(range(claim.start, claim.stop)):
                facts = claim.actor, step, versions[at][row], told[at][row][0], self.count[1]
                self.book[self.count[0]] = facts
                self.count[0] += 1
        self.count[1] += 1
        self.params.fill(told_by(int(self.count[1])))
        self.fresh = True
        return {"rows": float(self.count[0])}


SYNC = {
    "every": ObjectKeyTrigger("model_param", every=EVERY),
    "chance": ObjectKeyTrigger("model_param", probability=CHANCE, seed=SEED),
    "time": TimeTrigger(0.01),
}


def workload(
    actors: int = 2, total_steps: int = 192, steps: int = 8, sync: str = "round"
) -> Workload:
    """``sync`` says when actors take weights: with each ``round``, or as ``SYNC`` has it."""
    pulls = {"actors.sync": SYNC[sync]} if sync in SYNC else {}
    return Workload(
        name="witness",
        actor=Watched("counting:make", envs=1),
        learner=Clerk(),
        triggers={
            "learner.update": DataKeyTrigger(("values",), n=actors, size=steps),
            **pulls,
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors,
        steps=steps,
        total_steps=total_steps,
    )
