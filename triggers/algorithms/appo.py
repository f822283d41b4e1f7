"""APPO (asynchronous PPO): its settings, its estimates, its table.

As in Sample Factory (Petrenko et al. 2020) and RLlib: IMPALA's table with PPO's loss.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
import torch
from torch import Tensor

from artos.buffer.samplers.batch import Batch
from artos.learners.settings import (
    OPEN,
    ActorCriticSettings,
    ClippedSettings,
    EntropyBonus,
    LongestGradient,
    Steps,
    builder,
    fitted,
    learner,
    left_open,
    table,
)
from artos.losses.vtrace import vtrace
from artos.runs.plan import Plan
from artos.specs.workload import Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger
from triggers.algorithms.defaults import actor_critic, lag_of
from triggers.algorithms.ppo import PPO
from triggers.algorithms.separate import separated


class APPOSettings(ClippedSettings, kw_only=True, frozen=True):
    """What can be set of APPO, with its defaults."""

    steps: Steps = 64
    n: Annotated[int, table("rounds an update learns from, each of another actor")] = 1
    max_lag: Annotated[
        int | None, table("versions rows may be old; none: so that no actor waits")
    ] = None
    clip_rho: Annotated[
        float, learner("bound of the ratio that weighs a row", gt=0, unbounded=True)
    ] = 1.0
    clip_c: Annotated[
        float, learner("bound of the ratio that carries later rows back", gt=0, unbounded=True)
    ] = 1.0
    lr: Annotated[float, learner("step size", usual=5e-4, images=2.5e-4)] = OPEN
    anneal: Annotated[bool, learner("lower lr to 0 over the run")] = False
    epochs: Annotated[int, learner("passes over each batch", gt=0)] = 2
    minibatches: Annotated[int, learner("steps of Adam in a pass", gt=0)] = 2
    clip: Annotated[float, learner("bound of the ratio", gt=0, unbounded=True)] = 0.2
    ent_coef: EntropyBonus = 0.01
    max_grad_norm: LongestGradient = 40.0
    normalize_advantages: Annotated[bool, learner("mean 0 and variance 1 in each minibatch")] = (
        False
    )


class APPO(PPO):
    """PPO off-policy: V-trace corrects for the lag of the rows' policies, once for an update.

    Advantages and targets are those of the policy that the update begins with, weighed by its
    clipped ratio to the actor's; PPO's ratio is that of the policy as it changes to the one the
    update began with, so no row is weighed twice by how old it is (Hilton et al. 2022: the policy
    that bounds a step need not be the one that sampled). The first step is IMPALA's. Advantages
    are not normalised, as IMPALA's are not.
    """

    Settings: ClassVar[type[ActorCriticSettings]] = APPOSettings
    settings: APPOSettings
    reads: ClassVar[tuple[str, ...]] = ("actions", "rewards", "log_probs", "bootstraps")

    def _actors(self, plan: Plan) -> tuple[int]:
        return (self.settings.n,)

    def _prepare(self, batch: Batch) -> dict[str, Tensor]:
        """Rows with what the network as it is says of them, and V-trace's estimates by that."""
        s, rows = self.settings, self._rows(batch, ("actions",))
        with torch.no_grad():
            logs, _, values = self._evaluated(*self._seen(batch, rows, np.arange(len(batch))))
        ratios = logs.cpu().numpy().reshape(batch.shape) - batch.gather("log_probs")
        found = vtrace(
            ratios, **self._rounds(batch), values=values.cpu().numpy().reshape(batch.shape),
            clip_rho=s.clip_rho, clip_c=s.clip_c,
        )  # fmt: skip
        gains, targets = (self.tensor(each.reshape(-1)) for each in found)
        return {
            **rows, "log_probs": logs, "values": values, "advantages": gains, "returns": targets
        }  # fmt: skip


@builder(APPOSettings)
def workload(settings: APPOSettings) -> Workload:
    """APPO on any environment.

    An update takes the next ``n`` rounds that came, first come, first served. An actor goes on with
    its next round at once; ``n`` and ``max_lag`` are as with IMPALA.
    """
    actor = actor_critic(settings)
    found = fitted(settings, actor.spec)
    max_lag = lag_of(found.actors, found.n, found.max_lag)
    keys = tuple(key.name for key in actor.data_keys())
    return separated(Workload(
        name="appo",
        actor=actor,
        learner=APPO(found),
        triggers={
            "learner.update": DataKeyTrigger(keys, n=found.n, size=found.steps, max_lag=max_lag),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=found.actors, steps=found.steps, total_steps=found.total_steps,
        settings=left_open(found) | {"max_lag": max_lag},
    ))  # fmt: skip
