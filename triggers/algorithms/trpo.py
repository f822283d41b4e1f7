"""TRPO (Schulman et al. 2015): its settings, its update, its table."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np
import torch
from torch import Tensor

from artos.buffer.samplers.batch import Batch
from artos.learners.actor_critic import ActorCriticLearner, explained_variance
from artos.learners.conjugate_gradients import conjugate_gradients
from artos.learners.context import LearnerContext
from artos.learners.sequences import TimeMajor
from artos.learners.settings import (
    ActorCriticSettings,
    Steps,
    builder,
    fitted,
    learner,
    left_open,
)
from artos.learners.torch_learner import few_for_replicas, indivisible
from artos.losses.gae import advantages
from artos.losses.masked import masked_mean, mean_and_spread
from artos.policies.twin_mlp import TwinMlp
from artos.protocol.invocations import Invoke
from artos.runs.plan import Plan
from artos.specs.workload import Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger
from triggers.algorithms.defaults import actor_critic
from triggers.algorithms.separate import separated

_SHORTER = 0.8
_SOLVED = 1e-10


class TRPOSettings(ActorCriticSettings, kw_only=True, frozen=True):
    """What can be set of TRPO; ``lr`` and ``max_grad_norm`` are those of the critic."""

    steps: Steps = 128
    max_kl: Annotated[float, learner("furthest an update moves the policy", gt=0)] = 0.01
    damping: Annotated[float, learner("added to the curvature in all directions", ge=0)] = 0.1
    conjugate_steps: Annotated[int, learner("steps towards the natural gradient", ge=1)] = 10
    backtracks: Annotated[int, learner("lengths of a step that are tried", ge=1)] = 10
    epochs: Annotated[int, learner("passes of the critic over each batch", ge=1)] = 10
    minibatches: Annotated[int, learner("steps of the critic in a pass", ge=1)] = 4


class TRPO(ActorCriticLearner):
    """The policy takes one step along the natural gradient, as far as ``max_kl`` allows.

    Its curvature is that of the divergence as the rows' own actions show it, (r - 1) - log r with
    the ratio r of new to old probability: at r = 1 its Hessian is the mean of ∇log π ∇log πᵀ, the
    empirical Fisher matrix (the paper, §6, finds both alike). So any policy that evaluates actions
    will do. The critic has parameters of its own, for which the step's gradient is 0, and Adam.
    """

    Settings: ClassVar[type[ActorCriticSettings]] = TRPOSettings
    settings: TRPOSettings
    replicable: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ("actions", "rewards", "values", "bootstraps")

    def setup(self, context: LearnerContext) -> None:
        """Adopt the network, of which second derivatives are needed."""
        super().setup(context)
        for each in self.module.modules():
            if isinstance(each, TwinMlp):
                each.curved = True

    def faults(self, plan: Plan) -> list[str]:
        """Settings out of range, or minibatches that do not divide the batch."""
        found, minibatches = super().faults(plan), self.settings.minibatches
        found += few_for_replicas(plan, minibatches, self._actors(plan))
        return found + indivisible(plan, minibatches)

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """One step of the policy with all rows, then ``epochs`` passes of the critic."""
        began, s = time.perf_counter(), self.settings
        self._anneal(call)
        data = self._prepare(batch)
        if unmeasured := self._unmeasured():
            self._count(batch, data)
            data = self._prepare(batch)
        gathered = time.perf_counter()
        part = self._part(batch, np.arange(len(batch)), data.get("valid"))
        metrics = self._improve(*self._seen(batch, self._at(data, part), part))
        order = np.random.default_rng((self.context.seed, self.network.steps))
        for _ in range(s.epochs):
            for index in self._minibatches(batch, s.minibatches, order):
                part = self._part(batch, index, data.get("valid"))
                few = self._at(data, part)
                loss = self.compiler(self._value_loss, *self._seen(batch, few, part))
                self.step(loss)
        if not unmeasured:
            self._count(batch, data)
        self._seconds = {"gather": gathered - began, "learn": time.perf_counter() - gathered}
        loss = self.replicas.total({"value_loss": loss.detach()})["value_loss"]
        metrics |= {"value_loss": loss.item(), "lr": self.network.optimiser.lr}
        return metrics | explained_variance(data["returns"], data["values"], data.get("valid"))

    def _prepare(self, batch: Batch) -> dict[str, Tensor]:
        """Rows as they are learned from, with advantages of mean 0 and deviation 1."""
        found, returns = advantages(**self._rounds(batch, "values"))
        data = self._rows(batch, ("actions", "values"), advantages=found, returns=returns)
        mean, spread = mean_and_spread(data["advantages"], data.get("valid"))
        return data | {"advantages": (data["advantages"] - mean) / spread}

    def _value_loss(
        self, observations: Mapping[str, Tensor], few: Mapping[str, Tensor], by: TimeMajor | None
    ) -> Tensor:
        values = self._evaluated(observations, few, by)[2]
        squares = (values - few["returns"]).square()
        return 0.5 * self.settings.vf_coef * masked_mean(squares, few.get("valid"))

    def _improve(
        self, observations: Mapping[str, Tensor], data: Mapping[str, Tensor], by: TimeMajor | None
    ) -> dict[str, float]:
        """Move the policy's parameters (appendix C); the others have gradient 0, and stay.

        Of replicas each has gradients, and products with the curvature, of its part of the rows;
        what they are added up to is the same in all, and so is the way they go.
        """
        s, weights = self.settings, self.network.values[: self.network.count]
        parameters, learned = list(self.module.parameters()), self.network.learned

        def gradient(of: Tensor, *, again: bool = False) -> Tensor:
            found = iter(torch.autograd.grad(
                of, learned, retain_graph=True, create_graph=again, materialize_grads=True
            ))  # fmt: skip
            every = (next(found) if p.requires_grad else torch.zeros_like(p) for p in parameters)
            return torch.cat([each.reshape(-1) for each in every])

        def of_all(of: Tensor) -> Tensor:
            found = gradient(of * self.replicas.share)
            self.replicas.sum(found)
            return found

        def gain_and_kl(old: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
            logs, entropy, _ = self._evaluated(observations, data, by)
            change = logs - (logs.detach() if old is None else old)
            ratio, valid = change.exp(), data.get("valid")
            mean_entropy = masked_mean(entropy, valid)
            gain = masked_mean(ratio * data["advantages"], valid) + s.ent_coef * mean_entropy
            return gain, masked_mean(ratio - 1 - change, valid), logs.detach(), mean_entropy

        with torch.backends.cudnn.flags(enabled=False):  # its GRU has no second derivatives
            before, kl, old, entropy = gain_and_kl()
            slope = gradient(kl, again=True)
            uphill = of_all(before)

            def fisher(vector: Tensor) -> Tensor:
                return of_all(slope @ vector) + s.damping * vector

            direction = conjugate_gradients(fisher, uphill, s.conjugate_steps)
            curvature = (direction @ fisher(direction)).clamp(min=_SOLVED)
        start, step = weights.clone(), direction * torch.sqrt(2 * s.max_kl / curvature)
        was = self.replicas.total({"gain": before, "entropy": entropy})
        found = {"entropy": was["entropy"].item(), "approx_kl": 0.0, "gain": 0.0, "step": 0.0}
        for length in (_SHORTER**tried for tried in range(s.backtracks)):
            weights.copy_(start + length * step)
            with torch.no_grad():
                gain, kl, *_ = gain_and_kl(old)
            now = self.replicas.total({"gain": gain, "kl": kl})
            better, moved = (now["gain"] - was["gain"]).item(), now["kl"].item()
            if better > 0 and moved <= s.max_kl:
                return found | {"approx_kl": moved, "gain": better, "step": length}
        weights.copy_(start)
        return found


@builder(TRPOSettings)
def workload(settings: TRPOSettings) -> Workload:
    """TRPO on any environment.

    Sampling and learning alternate, as with A2C: rows are never older than the newest version.
    """
    actor = actor_critic(settings, apart=True)
    found = fitted(settings, actor.spec)
    keys = tuple(key.name for key in actor.data_keys())
    return separated(Workload(
        name="trpo",
        actor=actor,
        learner=TRPO(found),
        triggers={
            "learner.update": DataKeyTrigger(keys, size=found.steps, max_lag=0),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=found.actors, steps=found.steps, total_steps=found.total_steps,
        settings=left_open(found),
    ))  # fmt: skip
