"""Proximal policy optimisation: the update; its trigger table is in ``triggers.algorithms.ppo``."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from artos.buffer.samplers.batch import Batch, BatchStore
from artos.learners.actor_critic import ActorCriticLearner, explained_variance
from artos.learners.advantage_cache import AdvantageCache, GradientAccumulator
from artos.learners.compiler import Switch
from artos.learners.context import LearnerContext
from artos.learners.noise import GradientNoise
from artos.learners.ranges import bounds, positive
from artos.learners.sequences import TimeMajor
from artos.learners.torch_learner import indivisible, share, too_early
from artos.losses.masked import masked_mean
from artos.losses.ppo import ppo_loss
from artos.plan import Plan
from artos.protocol.invocations import Claim, Invoke
from artos.scaling.actor_count import NOISE_SCALE
from artos.spec import ObjectKey


class PPO(ActorCriticLearner):
    """PPO as users know it: clipping, GAE, advantage normalisation, value and entropy terms.

    ``target_kl`` ends an update early; for what it shares with others see ``ActorCriticLearner``.
    If the gradient noise scale (rows) is read, e.g. by the scaling policy, it is published as the
    object ``noise_scale`` and shown as a metric.

    ``update`` alone is complete. A trigger table may fire other methods before all rows have come
    (paper §4.4): ``preprocess`` computes advantages, ``accumulate`` adds up the gradient of the
    full batch, ``first_pass`` steps on minibatches of the rows that came first. ``update`` then
    does the rest, which is everything after a crash, and where statistics count no rows yet.
    """

    non_publishing: ClassVar[tuple[str, ...]] = ("preprocess", "accumulate", "first_pass")
    objects: ClassVar[tuple[ObjectKey, ...]] = (ObjectKey(NOISE_SCALE),)
    reads: ClassVar[tuple[str, ...]] = ("actions", "rewards", "log_probs", "values", "bootstraps")

    def __init__(
        self,
        *,
        lr: float = 2.5e-4,
        anneal: bool = True,
        gamma: float = 0.99,
        lam: float = 0.95,
        epochs: int = 4,
        minibatches: int = 4,
        clip: float = 0.2,
        value_clip: float | None = None,
        vf_coef: float = 0.5,
        ent_coef: float = 0.01,
        max_grad_norm: float | None = 0.5,
        normalize_advantages: bool = True,
        normalize_rewards: bool = False,
        target_kl: float | None = None,
        bfloat16: bool = False,
        threads: int = 0,
        compile: Switch = "off",
    ) -> None:
        super().__init__(
            lr=lr, anneal=anneal, gamma=gamma, lam=lam, vf_coef=vf_coef, ent_coef=ent_coef,
            max_grad_norm=max_grad_norm, normalize_rewards=normalize_rewards, bfloat16=bfloat16,
            threads=threads, compile=compile,
        )  # fmt: skip
        self.epochs, self.minibatches = epochs, minibatches
        self.normalize = normalize_advantages
        self.clip, self.value_clip, self.target_kl = clip, value_clip, target_kl

    def setup(self, context: LearnerContext) -> None:
        """Adopt the network; nothing is known yet of rows that will come."""
        super().setup(context)
        self._noise = GradientNoise() if _measures_noise(context.plan) else None
        self._advantages = AdvantageCache(context.blocks, self.gamma, self.lam, self._scaled)
        self._store = BatchStore()
        self._accumulator: GradientAccumulator | None = None
        self._passed: dict[Claim, Mapping[str, Tensor]] = {}
        self._learned: dict[int, int] = {}

    def faults(self, plan: Plan) -> list[str]:
        """Settings out of range, or minibatches that do not divide the batch."""
        found = super().faults(plan)
        if _measures_noise(plan) and self.minibatches == 1:
            found.append("the gradient noise scale is measured between minibatches: use 2 or more")
        found += indivisible(plan, self.minibatches)
        return found + too_early(plan, self.minibatches)

    def out_of_range(self) -> Iterator[str]:
        """See ``TorchLearner.out_of_range``."""
        yield from super().out_of_range()
        yield from positive(epochs=self.epochs, minibatches=self.minibatches)
        yield from bounds(clip=self.clip)
        yield from bounds(optional=True, value_clip=self.value_clip, target_kl=self.target_kl)

    # -- what triggers fire --------------------------------------------------------------------

    def preprocess(self, batch: Batch, call: Invoke) -> None:
        """Compute advantages of rows whose observations and actions may still be on their way."""
        began = time.perf_counter()
        if not self._unmeasured():
            self._advantages.add(batch)
        self._seconds = {"preprocess": time.perf_counter() - began}

    def accumulate(self, batch: Batch, call: Invoke) -> None:
        """Add the gradient of these rows to that of the full batch they were preprocessed in.

        The sum is the gradient that ``update`` would compute: advantages are normalised over the
        full batch. While some of its rewards are missing that is impossible, and nothing is done.
        """
        began = time.perf_counter()
        claims = self._advantages.beside(batch.claims[0])
        if set(batch.claims) <= set(claims):
            self._accumulator = self._accumulator_of(claims)
            self._add(self._accumulator, batch.claims)
        self._seconds = {"learn": time.perf_counter() - began}

    def first_pass(self, batch: Batch, call: Invoke) -> None:
        """The first epoch over these rows, in minibatches of their own.

        Rows are left to ``update`` while older rows of their actor are, or may be, still to be
        learned from. So each version includes all steps on its own rows and none on later rows,
        and a crash neither loses nor repeats a step.
        """
        began = time.perf_counter()
        gathered = began
        oldest = all(claim.start == self._learned.get(claim.actor, 0) for claim in batch.claims)
        if oldest and not self._unmeasured():
            self._anneal(call)
            data = self._prepare(batch)
            gathered = time.perf_counter()
            self._observe(True)
            metrics = self._epoch(batch, data, self._share(batch))
            self._passed |= dict.fromkeys(batch.claims, metrics)
        self._seconds = {"gather": gathered - began, "learn": time.perf_counter() - gathered}

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """One PPO update on a full batch: ``epochs`` passes over shuffled minibatches."""
        began = time.perf_counter()
        self._anneal(call)
        data = self._prepare(batch)
        first = self._unmeasured()
        if first:
            self._count(batch, data)
            data = self._prepare(batch)
        gathered = time.perf_counter()
        metrics: Mapping[str, Tensor] = {}
        for epoch in range(self.epochs):
            self._observe(epoch == 0)
            metrics = (self._epoch if epoch else self._first_epoch)(batch, data)
            if self.target_kl is not None and float(metrics["approx_kl"]) > self.target_kl:
                break
        self._forget(batch.claims)
        if not first:
            self._count(batch, data)
        self._seconds = {"gather": gathered - began, "learn": time.perf_counter() - gathered}
        result = {name: float(value) for name, value in metrics.items()}
        result["lr"] = self.network.optimiser.lr
        if self._noise is not None:
            rows = int(data["valid"].sum()) if "valid" in data else len(batch)
            scale = result[NOISE_SCALE] = self._noise.estimate(rows)
            self.publish(NOISE_SCALE, scale)
        return result | explained_variance(data["returns"], data["values"], data.get("valid"))

    # -- epochs --------------------------------------------------------------------------------

    def _first_epoch(self, batch: Batch, data: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Do what is left of the first epoch."""
        beside = self._advantages.beside(batch.claims[0])
        if self._accumulator and self._accumulator.claims == beside == batch.claims:
            return self._finish(self._accumulator)
        left = [claim for claim in batch.claims if claim not in self._passed]
        if not left:
            return self._passed[batch.claims[-1]]
        if len(left) == len(batch.claims):
            return self._epoch(batch, data)
        rest = Batch(self.context.blocks, left, self._store)
        return self._epoch(rest, self._prepare(rest), self._share(rest))

    def _epoch(
        self, batch: Batch, data: Mapping[str, Tensor], minibatches: int = 0
    ) -> Mapping[str, Tensor]:
        self._accumulator = None
        # Seeded by what is published with the weights, so that a crash changes nothing.
        order = np.random.default_rng((self.context.seed, self.network.steps))
        metrics: Mapping[str, Tensor] = {}
        for index in self._minibatches(batch, minibatches or self.minibatches, order):
            loss, metrics = self._loss(batch, data, index)
            self.step(loss)
        return metrics

    def _observe(self, first: bool) -> None:
        """Measure the noise of gradients, in the first pass over rows if at all."""
        self.network.observe = self._noise.add if self._noise and first else None

    def _share(self, batch: Batch) -> int:
        return share(self.context.plan, self.minibatches, len(batch))

    def _forget(self, claims: tuple[Claim, ...]) -> None:
        self._advantages.forget(claims)
        self._learned |= {claim.actor: claim.stop for claim in claims}
        self._passed = {
            c: m for c, m in self._passed.items() if c.stop > self._learned.get(c.actor, 0)
        }

    # -- the full batch, piece by piece --------------------------------------------------------

    def _accumulator_of(self, claims: tuple[Claim, ...]) -> GradientAccumulator:
        if self._accumulator and self._accumulator.claims == claims:
            return self._accumulator
        self.network.discard()
        batch = Batch(self.context.blocks, claims, self._store)
        advantage = self.tensor(self._advantages.of(batch)[0])
        valid = self.tensor(batch.gather("valid")) if "valid" in batch.names else None
        mean, spread = self._scale(advantage, valid)
        count = len(batch) if valid is None else max(1, int(valid.sum()))
        return GradientAccumulator(claims, float(mean), float(spread), count)

    def _add(self, accumulator: GradientAccumulator, claims: tuple[Claim, ...]) -> None:
        for claim in (claim for claim in claims if claim not in accumulator.added):
            piece = Batch(self.context.blocks, [claim], self._store)
            rows = np.arange(len(piece))
            loss, metrics = self._loss(piece, self._prepare(piece), rows, accumulator)
            self.network.backward(loss)
            accumulator.note(claim, metrics)

    def _finish(self, accumulator: GradientAccumulator) -> Mapping[str, Tensor]:
        self._add(accumulator, accumulator.claims)
        self.network.apply()
        self._accumulator = None
        return accumulator.metrics

    # -- rows ----------------------------------------------------------------------------------

    def _prepare(self, batch: Batch) -> dict[str, Tensor]:
        advantage, returns = self._advantages.of(batch)
        names = ("actions", "log_probs", "values")
        return self._rows(batch, names, advantages=advantage, returns=returns)

    def _loss(
        self,
        batch: Batch,
        data: Mapping[str, Tensor],
        index: NDArray[np.int64],
        full: GradientAccumulator | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of the rows at ``index``, alone or as a part of the full batch."""
        at = self.tensor(index)
        few = {name: tensor[at] for name, tensor in data.items()}
        return self.compiler(self._objective, *self._seen(batch, few, index), full)

    def _objective(
        self,
        observations: Mapping[str, Tensor],
        few: Mapping[str, Tensor],
        by: TimeMajor | None,
        full: GradientAccumulator | None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        log_probs, entropy, values = self._evaluated(observations, few, by)
        advantage = few["advantages"]
        valid = few.get("valid")
        mean, spread = (full.mean, full.spread) if full else self._scale(advantage, valid)
        return ppo_loss(
            log_probs,
            few["log_probs"],
            (advantage - mean) / spread,
            values,
            few["values"],
            few["returns"],
            entropy,
            self.clip,
            self.value_clip,
            self.vf_coef,
            self.ent_coef,
            valid,
            full.count if full else None,
        )

    def _scale(
        self, values: Tensor, valid: Tensor | None = None
    ) -> tuple[Tensor | float, Tensor | float]:
        """What normalises advantages: mean and deviation of those that are learned from.

        One alone has no deviation, and none from its own mean: it stays as it is.
        """
        if not self.normalize or values.numel() < 2:
            return 0.0, 1.0
        if valid is None:
            return values.mean(), values.std() + 1e-8
        mean, count = masked_mean(values, valid), valid.sum()
        variance = masked_mean((values - mean).square(), valid) * count / (count - 1).clamp(min=1)
        several = count > 1
        return torch.where(several, mean, 0), torch.where(several, variance.sqrt() + 1e-8, 1)


def _measures_noise(plan: Plan) -> bool:
    return NOISE_SCALE in plan.wanted
