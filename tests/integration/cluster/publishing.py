"""The witness with an object beside the weights, which says how many rows were learned from.

Each version of the object has the learner called and the actors bind new weights; the number of
actors goes by its value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from witness import Clerk, Watched, told_by

from artos import ObjectKey, ScalingPolicy, Workload
from artos.buffer.past_versions import past_of
from triggers import DataKeyTrigger, ObjectKeyTrigger

STEPS, ENOUGH = 8, 24


class Teller(Clerk):
    """Publishes the number of rows as ``noise_scale``, before the weights of the same update.

    Actors read ``told``, which has the value of the weights of its version.
    """

    objects = (ObjectKey("noise_scale"), ObjectKey("told", (), "float32"))
    non_publishing = ("noticed",)

    def setup(self, context: Any) -> None:
        super().setup(context)
        self.publish = context.publish
        if self.publish.newest("told") is None:
            self.publish("told", told_by(0))

    def update(self, batch: Any, call: Any) -> dict[str, float]:
        metrics = super().update(batch, call)
        self.publish("noise_scale", metrics["rows"])
        self.publish("told", self.params[0])
        return metrics

    def noticed(self, batch: Any, call: Any) -> dict[str, float]:
        assert batch is None
        return {"noticed": float(self.publish.newest("noise_scale"))}


class Reader(Watched):
    """Fails where what it reads is not of the version that it binds, or a past version lacks."""

    def bind(self, params: Any, version: int) -> None:
        assert self.bound.version == version
        wanted = past_of(version, self.history, self.every)
        assert [past.version for past in self.bound.pasts] == wanted
        for bound in (self.bound, *self.bound.pasts):
            assert bound.objects["told"] == told_by(bound.version), bound
            assert (bound.params == np.float32(told_by(bound.version))).all(), bound
        super().bind(params, version)


@dataclass
class MoreAfterEnough(ScalingPolicy):
    """One actor until ``ENOUGH`` rows were learned from, then two; remembers what it was shown."""

    least: int = 1
    most: int = 2
    objects = ("noise_scale",)

    def decide(self, seen: Any, memory: dict[str, Any]) -> int:
        scale = seen.objects.get("noise_scale")
        memory.setdefault("seen", []).append(scale)
        return self.most if (scale or 0) >= ENOUGH else self.least


def workload(total_steps: int = 72) -> Workload:
    return Workload(
        name="publishing",
        actor=Reader("counting:make", envs=1, reads=("told",), history=2, every=2),
        learner=Teller(),
        triggers={
            "learner.update": DataKeyTrigger(("values",), size=STEPS),
            "learner.noticed": ObjectKeyTrigger("noise_scale"),
            "actors.sync": ObjectKeyTrigger("noise_scale", every=2),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=MoreAfterEnough(),
        steps=STEPS,
        total_steps=total_steps,
    )
