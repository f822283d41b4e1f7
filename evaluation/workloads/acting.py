"""A workload whose learner does not learn: shows the cost of acting with buffer and triggers.

``artos run evaluation/workloads/acting.py:workload --env PongNoFrameskip-v4``. The weights are
published again for every batch, so actors bind, sample and commit exactly as in training.
"""

from __future__ import annotations

from typing import Literal

from artos.actors.asking import AskingActor
from artos.actors.rollout import RolloutActor
from artos.buffer.samplers.batch import Batch
from artos.learners.torch_learner import TorchLearner
from artos.policies.build import Policy
from artos.policies.inference import Inference
from artos.protocol.invocations import Invoke
from artos.specs.workload import Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger


class Idle(TorchLearner):
    """Publishes the same weights again and again."""

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """Publish without reading the batch or changing the weights."""
        self.publish()
        return {}


def workload(
    env: str = "PongNoFrameskip-v4",
    actors: int = 2,
    total_steps: int = 40_000,
    *,
    envs: int = 4,
    steps: int = 128,
    inference: Literal["actor", "central"] = "actor",
    splits: int = 1,
    batch: int = 1,
    wait: float = 0.0,
) -> Workload:
    """Actors that sample one round ahead of a learner that does nothing.

    With ``inference=central`` a server evaluates the policy; see ``AskingActor``.
    """
    actor = RolloutActor(env, Policy(), envs)
    if inference == "central":
        server = Inference(batch, wait)
        actor = AskingActor(env, Policy(), envs, splits=splits, server=server)
    keys = tuple(key.name for key in actor.data_keys())
    return Workload(
        name="acting",
        actor=actor,
        learner=Idle(),
        triggers={
            "learner.update": DataKeyTrigger(keys, n=actors, size=steps, max_lag=1),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors,
        steps=steps,
        total_steps=total_steps,
    )
