"""An actor of its own that meets past versions of another learner, and writes down which.

The first weight of a version is its number; the second one sums up whom its rows met. Actors and
learners fail where one is met that is not past, or has the weights of another one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from artos import Actor, ActorContext, Batch, DataKey, Invoke, Learner, LearnerContext, Workload
from artos.buffer.past_versions import past_of
from triggers import DataKeyTrigger, ObjectKeyTrigger

HISTORY, EVERY, STEPS = 2, 3, 8


class Duelist(Actor):
    """Meets any of those that are past for it, one in a round."""

    envs = 2
    reads = ("rival/model_param",)
    history, every, past_of = HISTORY, EVERY, ("rival",)
    kept = ("random",)

    def data_keys(self) -> tuple[DataKey, ...]:
        return DataKey("met", (), "int64"), DataKey("rewards")

    def build_module(self, seed: int) -> NDArray[np.float32]:
        return np.zeros(2, np.float32)

    def setup(self, context: ActorContext) -> None:
        self.block, self.random = context.block, np.random.default_rng(context.seed)

    def bind(self, params: NDArray[np.float32], version: int) -> None:
        self.version, bound = version, self.bound
        rival = bound.versions["rival"]
        assert bound.objects["rival/model_param"][0] == rival, (rival, bound)
        for now, pasts in ((version, bound.pasts), (rival, bound.pasts_of["rival"])):
            assert [past.version for past in pasts] == past_of(now, HISTORY, EVERY), (now, pasts)
            for past in pasts:
                assert past.params is not None
                assert past.params[0] == past.version, past
        assert (
            bound.past(HISTORY, "rival").version == (past_of(rival, HISTORY, EVERY) or [rival])[-1]
        )

    def sample(self, start: int, rows: int, call: Invoke) -> Mapping[str, float]:
        past = self.bound.past(int(self.random.integers(HISTORY)) + 1, "rival")
        assert past.params is not None
        arrays, capacity = self.block.arrays, self.block.spec.capacity
        for row in (step % capacity for step in range(start, start + rows)):
            arrays["met"][row] = past.params[0]
            arrays["rewards"][row] = 0
            arrays["policy_version"][row] = self.version
        return {}


class Counter(Learner):
    """Each update is a version."""

    def setup(self, context: LearnerContext) -> None:
        self.params = context.module.copy()

    def live(self) -> dict[str, NDArray[np.generic]]:
        return {"params": self.params}

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        met, rivals = batch.gather("met"), batch.gather("policy_version.rival")
        for past, rival in {*zip(met[..., 0].ravel(), rivals.ravel(), strict=True)}:
            assert past in (past_of(int(rival), HISTORY, EVERY) or [rival]), (past, rival)
        self.params += np.float32(1), met.mean(dtype=np.float32)
        self.fresh = True
        return {"met": float(met.mean())}


def workload(total_updates: int = 20) -> Workload:
    return Workload(
        name="rivals",
        actor=Duelist(),
        learners={"self": Counter(), "rival": Counter()},
        triggers={
            "self.update": DataKeyTrigger(("met",), size=STEPS),
            "rival.update": DataKeyTrigger(("met",), size=STEPS),
            "actors.sample": ObjectKeyTrigger("self/model_param")
            & ObjectKeyTrigger("rival/model_param"),
        },
        actors=2, steps=STEPS, total_steps=0, total_updates=total_updates,
    )  # fmt: skip
