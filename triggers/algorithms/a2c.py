"""A2C (Mnih et al. 2016, synchronous): its settings, its update, its table (paper Table 3)."""

from __future__ import annotations

import time
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch

from artos.buffer.samplers.batch import Batch
from artos.learners.actor_critic import ActorCriticLearner, explained_variance
from artos.learners.optimisers import Adam, Optimiser, RMSprop
from artos.learners.settings import (
    ActorCriticSettings,
    Lambda,
    Steps,
    builder,
    fitted,
    learner,
    left_open,
)
from artos.learners.torch_learner import few_for_replicas
from artos.losses.actor_critic import actor_critic_loss
from artos.losses.gae import advantages
from artos.losses.rounds import Floats
from artos.protocol.invocations import Invoke
from artos.runs.plan import Plan
from artos.specs.workload import Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger
from triggers.algorithms.defaults import actor_critic
from triggers.algorithms.separate import separated

Stepping = Annotated[Literal["adam", "rmsprop"], learner("what steps")]


class A2CSettings(ActorCriticSettings, kw_only=True, frozen=True):
    """What can be set of A2C, with its defaults."""

    steps: Steps = 5
    lam: Lambda = 1.0
    optimiser: Stepping = "rmsprop"


class A2C(ActorCriticLearner):
    """One gradient step with all rows of a batch.

    ``lam=1`` makes advantages of n-step returns, n being what is left of the round; less is GAE.
    """

    Settings: ClassVar[type[ActorCriticSettings]] = A2CSettings
    settings: A2CSettings
    replicable: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ("actions", "rewards", "bootstraps")

    def optimiser(self) -> Optimiser:
        """As set."""
        return Adam(self.lr) if self.settings.optimiser == "adam" else RMSprop(self.lr)

    def faults(self, plan: Plan) -> list[str]:
        """Also a batch that replicas cannot divide."""
        return super().faults(plan) + few_for_replicas(plan, 1, self._actors(plan))

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """One step."""
        began, s = time.perf_counter(), self.settings
        self._anneal(call)
        rows = self._rows(batch, ("actions",))
        if unmeasured := self._unmeasured():
            self._count(batch, rows)
        self._seconds = {"gather": time.perf_counter() - began}
        every, valid = np.arange(len(batch)), rows.get("valid")
        part = self._part(batch, every, valid)
        mine = rows if part is every else self._at(rows, part)
        log_probs, entropy, values = self._evaluate(batch, mine, part)
        answers = torch.stack((log_probs, values), 1).detach().cpu().numpy()
        answers = self.replicas.assemble(answers, len(batch), part)  # of all rows
        estimates = self._estimates(batch, *(each.reshape(batch.shape) for each in answers.T))
        found = {
            name: self.tensor(each.reshape(-1))
            for name, each in zip(("advantages", "targets"), estimates, strict=True)
        }
        few = found if part is every else self._at(found, part)
        loss, report = actor_critic_loss(
            log_probs, few["advantages"], values, few["targets"], entropy, s.vf_coef, s.ent_coef,
            mine.get("valid"),
        )  # fmt: skip
        self.step(loss)
        if not unmeasured:
            self._count(batch, rows)
        metrics = {name: float(value) for name, value in self.replicas.total(report).items()}
        metrics["lr"] = self.network.optimiser.lr
        every_value = self.tensor(np.ascontiguousarray(answers[:, 1]))
        return metrics | explained_variance(found["targets"], every_value, valid)

    def _estimates(self, batch: Batch, log_probs: Floats, values: Floats) -> tuple[Floats, Floats]:
        """Advantages and value targets, by the network's answer for all rows; all (A, T, E)."""
        return advantages(**self._rounds(batch), values=values)


@builder(A2CSettings)
def workload(settings: A2CSettings) -> Workload:
    """A2C on any environment.

    Sampling and learning alternate: an update is one gradient step with one round of all actors
    that take part, so rows are never older than the newest version.
    """
    actor = actor_critic(settings)
    found = fitted(settings, actor.spec)
    keys = tuple(key.name for key in actor.data_keys())
    return separated(Workload(
        name="a2c",
        actor=actor,
        learner=A2C(found),
        triggers={
            "learner.update": DataKeyTrigger(keys, size=found.steps, max_lag=0),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=found.actors, steps=found.steps, total_steps=found.total_steps,
        settings=left_open(found),
    ))  # fmt: skip
