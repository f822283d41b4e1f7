"""Matching pennies between two policies, which a third learner watches; all of it checks itself.

The first policy, ``even``, wants both coins alike, ``odd`` does not. With its weights each learner
publishes how many updates these hold, and actors find out whether what they bound belongs together.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from artos import (
    Actor,
    ActorContext,
    Batch,
    DataKey,
    Invoke,
    Learner,
    LearnerContext,
    ObjectKey,
    Workload,
)
from triggers import CountTrigger, DataKeyTrigger, ObjectKeyTrigger, ValueTrigger

ENVS, STEPS = 4, 8


def chance(params: NDArray[np.float32]) -> float:
    return float(1 / (1 + np.exp(-params[0])))


class Players(Actor):
    """Both play in one actor: with the weights that it acts with, and with those that it reads."""

    envs = ENVS
    reads = ("odd/model_param", "odd/made", "even/made")
    kept = ("random",)

    def data_keys(self) -> tuple[DataKey, ...]:
        return DataKey("even", (), "int64"), DataKey("odd", (), "int64"), DataKey("rewards")

    def build_module(self, seed: int) -> NDArray[np.float32]:
        return np.random.default_rng(seed).normal(0, 1, 1).astype(np.float32)

    def setup(self, context: ActorContext) -> None:
        self.block, self.random = context.block, np.random.default_rng(context.seed)

    def bind(self, params: NDArray[np.float32], version: int) -> None:
        bound = self.bound
        assert bound.objects["odd/made"] == bound.versions["odd"], bound
        assert bound.objects["even/made"] == bound.version == version, bound
        self.version = version
        self.chances = chance(params), chance(bound.objects["odd/model_param"])

    def sample(self, start: int, rows: int, call: Invoke) -> Mapping[str, float]:
        arrays, capacity = self.block.arrays, self.block.spec.capacity
        for row in (step % capacity for step in range(start, start + rows)):
            even, odd = (self.random.random(ENVS) < each for each in self.chances)
            arrays["even"][row], arrays["odd"][row] = even, odd
            arrays["rewards"][row] = np.where(even == odd, 1, -1)
            arrays["policy_version"][row] = self.version
        return {}


class Policy(Learner):
    """REINFORCE on its own coins; counts its updates in its weights' version."""

    objects = (ObjectKey("made"),)

    def __init__(self, key: str, sign: int, lr: float) -> None:
        self.key, self.sign, self.lr = key, sign, lr

    def setup(self, context: LearnerContext) -> None:
        self.publish, self.params = context.publish, context.module.copy()
        self.count = np.zeros(1)
        if self.publish.newest("made") is None:
            self.publish("made", 0.0)

    def live(self) -> dict[str, NDArray[np.generic]]:
        return {"params": self.params, "learner.count": self.count}

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        coins, rewards = batch.gather(self.key).ravel(), batch.gather("rewards").ravel()
        theirs = batch.gather("policy_version.odd")
        assert (np.diff(theirs.reshape(len(theirs), -1)) >= 0).all(), "versions never go back"
        if self.key == "odd":
            assert (theirs <= self.count[0]).all(), "rows are of versions that it has made"
        gained = np.mean(self.sign * rewards * (coins - chance(self.params)))
        self.params += np.float32(self.lr * gained)
        self.count += 1
        self.publish("made", self.count[0])
        self.fresh = True
        return {"heads": float(coins.mean())}


class Watcher(Learner):
    """Is called for so many rows, whosever these are, and when ``odd`` has made enough updates."""

    def setup(self, context: LearnerContext) -> None:
        self.counts, self.blocks = np.zeros(2, np.float32), context.blocks

    def live(self) -> dict[str, NDArray[np.generic]]:
        return {"params": self.counts}

    def look(self, batch: None, call: Invoke) -> dict[str, float]:
        self.counts[0] += 1
        self.fresh = True
        return {"rows": float(sum(block.written for block in self.blocks.values()))}

    def note(self, batch: None, call: Invoke) -> dict[str, float]:
        self.counts[1] += 1
        self.fresh = True
        return {}


def workload(total_updates: int = 40, lr: float = 0.1, enough: float = 20.0) -> Workload:
    return Workload(
        name="pennies",
        actor=Players(),
        learners={
            "even": Policy("even", 1, lr), "odd": Policy("odd", -1, lr), "watcher": Watcher(),
        },
        triggers={
            "even.update": DataKeyTrigger(("even", "rewards"), n=2, size=STEPS),
            "odd.update": DataKeyTrigger(("odd", "rewards"), n=2, size=STEPS),
            "watcher.look": CountTrigger(rows=50),
            "watcher.note": ValueTrigger("odd/made", above=enough),
            "actors.sample": ObjectKeyTrigger("even/model_param"),
        },
        actors=2, steps=STEPS, total_steps=0, total_updates=total_updates,
    )  # fmt: skip
