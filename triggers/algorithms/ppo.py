"""PPO (Schulman et al. 2017): its settings, its update, its table (paper Table 3: on-policy)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from torch import Tensor

from artos.buffer.samplers.batch import Batch
from artos.learners.actor_critic import ActorCriticLearner, explained_variance
from artos.learners.context import LearnerContext
from artos.learners.noise import GradientNoise
from artos.learners.sequences import TimeMajor
from artos.learners.settings import (
    OPEN,
    ActorCriticSettings,
    ClippedSettings,
    builder,
    fitted,
    left_open,
    table,
)
from artos.learners.torch_learner import few_for_replicas, indivisible
from artos.losses.gae import advantages
from artos.losses.masked import Scale, mean_and_spread
from artos.losses.ppo import Clipped, ppo_loss
from artos.losses.rounds import Floats
from artos.protocol.invocations import Invoke
from artos.runs.plan import Plan
from artos.specs.actor_count import NOISE_SCALE, actors_of
from artos.specs.keys import ObjectKey
from artos.specs.workload import Workload
from triggers import ObjectKeyTrigger
from triggers.algorithms.defaults import actor_critic, divided
from triggers.algorithms.pipelines import Pipeline, learner_rows
from triggers.algorithms.separate import separated


class PPOSettings(ClippedSettings, kw_only=True, frozen=True):
    """``*`` marks what is chosen where actions are continuous and no observation is an image.

    That is what Stable-Baselines3 takes, with its 2,048 rows from eight environments.
    """

    steps: Annotated[
        int, table("steps of each environment in a round", usual=128, continuous=256)
    ] = OPEN
    max_lag: Annotated[int, table("versions rows may be old; 0: sample and learn in turn")] = 0
    pipeline: Annotated[Pipeline, table("what is done before a batch is complete")] = "none"
    correlation: Annotated[
        float, table("of continuous actions' noise, step to step, 0 to below 1")
    ] = 0.5


class PPO(ActorCriticLearner):
    """PPO as users know it: clipping, GAE, advantage normalisation, value and entropy terms.

    If the gradient noise scale (rows) is read, e.g. by the scaling policy, it is published as the
    object ``noise_scale`` and shown as a metric.
    """

    Settings: ClassVar[type[ActorCriticSettings]] = PPOSettings
    settings: ClippedSettings
    replicable: ClassVar[bool] = True
    objects: ClassVar[tuple[ObjectKey, ...]] = (ObjectKey(NOISE_SCALE),)
    reads: ClassVar[tuple[str, ...]] = ("actions", "rewards", "log_probs", "values", "bootstraps")

    def setup(self, context: LearnerContext) -> None:
        """Adopt the network; measure the noise of gradients where something reads it."""
        super().setup(context)
        self._noise = GradientNoise() if NOISE_SCALE in context.plan.wanted else None
        self._analytic = self._without_autograd(PPO, "_loss", "_rated", "step")

    def faults(self, plan: Plan) -> list[str]:
        """Settings out of range, or minibatches that do not divide the batch."""
        found, minibatches = super().faults(plan), self.settings.minibatches
        if NOISE_SCALE in plan.wanted and minibatches == 1:
            found.append("the gradient noise scale is measured between minibatches: use 2 or more")
        found += few_for_replicas(plan, minibatches, self._actors(plan))
        return found + indivisible(plan, minibatches, self._actors(plan))

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """One update on a full batch: ``epochs`` passes over shuffled minibatches."""
        began, s = time.perf_counter(), self.settings
        self._anneal(call)
        data = self._prepare(batch)
        if unmeasured := self._unmeasured():
            self._count(batch, data)
            data = self._prepare(batch)
        gathered = time.perf_counter()
        metrics = self._begun(batch, data)
        for epoch in range(1 if metrics else 0, s.epochs):
            if s.target_kl is not None and metrics and float(metrics["approx_kl"]) > s.target_kl:
                break
            # The noise is that of gradients which have not seen their rows before.
            self.network.observe = self._noise.add if self._noise and epoch == 0 else None
            metrics = self._pass(batch, data, s.minibatches)
        if not unmeasured:
            self._count(batch, data)
        self._seconds = {"gather": gathered - began, "learn": time.perf_counter() - gathered}
        result = {name: float(value) for name, value in metrics.items()}
        result["lr"] = self.network.optimiser.lr
        if self._noise is not None:
            counted = data["valid"].sum() if "valid" in data else len(data["advantages"])
            scale = result[NOISE_SCALE] = self._noise.estimate(int(counted))
            self.publish(NOISE_SCALE, scale)
        return result | explained_variance(data["returns"], data["values"], data.get("valid"))

    def _begun(self, batch: Batch, data: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Metrics of the first pass, if it was begun before the batch was complete; not here."""
        return {}

    def _pass(self, batch: Batch, data: Mapping[str, Tensor], count: int) -> Mapping[str, Tensor]:
        """A pass over rows in ``count`` minibatches; returns the report of the last one."""
        # Seeded by what is published with the weights, so that a crash changes nothing.
        order = np.random.default_rng((self.context.seed, self.network.steps))
        report: Callable[[], Mapping[str, Tensor]] = dict
        for index in self._minibatches(batch, count, order):
            part = self._part(batch, index, data.get("valid"))
            few = self._at(data, part)
            whole = few if part is index else self._at(data, index)
            mean, spread = self._scale(whole["advantages"], whole.get("valid"))
            few = {**few, "advantages": (few["advantages"] - mean) / spread}
            report = self._learn(*self._seen(batch, few, part))
        return self.replicas.total(report())

    def _learn(
        self, observations: Mapping[str, Tensor], few: Mapping[str, Tensor], by: TimeMajor | None
    ) -> Callable[[], Mapping[str, Tensor]]:
        """Step with a minibatch; returns what makes its report."""
        if self._analytic is None:
            loss, metrics = self.compiler(self._loss, observations, few, by)
            self.step(loss)
            return lambda: metrics
        found = Clipped(*self._rated(few, *self._analytic.evaluate(observations, few["actions"])))
        self._analytic.backward(*found.gradients(self.replicas.share))
        self.network.step_written()
        return found.report

    def _prepare(self, batch: Batch) -> dict[str, Tensor]:
        """Rows as they are learned from, with advantages and returns: (rows, *shape) by name."""
        advantage, returns = self._estimates(batch)
        names = ("actions", "log_probs", "values")
        return self._rows(batch, names, advantages=advantage, returns=returns)

    def _estimates(self, batch: Batch) -> tuple[Floats, Floats]:
        """Advantages and returns, both (A, T, E)."""
        return advantages(**self._rounds(batch, "values"))

    def _loss(
        self, observations: Mapping[str, Tensor], few: Mapping[str, Tensor],
        by: TimeMajor | None, count: float | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:  # fmt: skip
        """Loss and report of ``few`` rows, alone or a part of ``count``; advantages normalised."""
        return ppo_loss(*self._rated(few, *self._evaluated(observations, few, by), count=count))

    def _rated(
        self, few: Mapping[str, Tensor], *evaluated: Tensor, count: float | None = None
    ) -> tuple[Any, ...]:
        """The arguments of ``ppo_loss``."""
        (log_probs, entropy, values), s = evaluated, self.settings
        return (
            log_probs, few["log_probs"], few["advantages"], values, few["values"], few["returns"],
            entropy, s.clip, s.value_clip, s.vf_coef, s.ent_coef, few.get("valid"), count,
        )  # fmt: skip

    def _scale(self, values: Tensor, valid: Tensor | None = None) -> Scale:
        """What normalises advantages: mean and deviation of those that are learned from."""
        return mean_and_spread(values, valid) if self.settings.normalize_advantages else (0.0, 1.0)


@builder(PPOSettings)
def workload(settings: PPOSettings) -> Workload:
    """PPO on any environment.

    ``max_lag=0`` alternates sampling and learning, exactly on-policy; ``max_lag=1`` samples the
    next round while the learner works on the previous one: rows are at most one version old when
    consumed. An update learns from one round of all actors that take part at that time. Pipelines
    with ``minibatch`` make the first epoch's minibatches of the rows that came first; else updates
    are the same as without one.
    """
    from triggers.algorithms.pipelined_ppo import PipelinedPPO  # noqa: PLC0415  # it is a PPO

    actor = actor_critic(settings, settings.correlation)
    found, numbers = fitted(settings, actor.spec), actors_of(settings.actors)
    found = divided(found, actor, found.steps)
    keys = tuple(key.name for key in actor.data_keys())
    together = max(1, numbers.most // max(1, found.minibatches))
    rows_to_learner = learner_rows(found.pipeline, keys, found.steps, together, found.max_lag)
    return separated(Workload(
        name="ppo",
        actor=actor,
        learner=PPO(found) if found.pipeline == "none" else PipelinedPPO(found),
        triggers={**rows_to_learner, "actors.sample": ObjectKeyTrigger("model_param")},
        actors=found.actors, steps=found.steps, total_steps=found.total_steps,
        settings=left_open(found),
    ))  # fmt: skip
