"""Proximal policy optimisation: the update; its trigger table is in ``triggers.algorithms.ppo``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from artos.buffer.batch import Batch
from artos.learners.noise import GradientNoise
from artos.learners.torch_learner import LearnerContext, TorchLearner
from artos.losses.gae import advantages
from artos.losses.ppo import ppo_loss
from artos.messages import Invoke
from artos.plan import Plan
from artos.scaling import NoiseScale


class PPO(TorchLearner):
    """PPO as users know it: clipping, GAE, advantage normalisation, value and entropy terms.

    ``anneal`` lowers the learning rate linearly to 0 over the run. ``bfloat16`` runs the network in
    bfloat16 autocast (weights and losses stay float32). ``target_kl`` ends an update early.
    Where the gradient noise scale decides how many actors there are, it is the metric
    ``noise_scale`` (rows).
    """

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
        target_kl: float | None = None,
        bfloat16: bool = False,
        threads: int = 0,
    ) -> None:
        super().__init__(lr, max_grad_norm, threads)
        self.anneal, self.gamma, self.lam = anneal, gamma, lam
        self.epochs, self.minibatches = epochs, minibatches
        self.clip, self.value_clip, self.target_kl = clip, value_clip, target_kl
        self.vf_coef, self.ent_coef = vf_coef, ent_coef
        self.normalize, self.bfloat16 = normalize_advantages, bfloat16
        self._seconds: dict[str, float] = {}

    def setup(self, context: LearnerContext) -> None:
        """Adopt the network; find out which keys are observations."""
        super().setup(context)
        keys = [k for k in context.plan.data_keys if k.name.partition(".")[0] == "observations"]
        self._parts = [k.name for k in keys]
        self._large = {k.name for k in keys if len(k.shape) > 1}
        self._noise = GradientNoise() if _measures_noise(context.plan) else None

    def faults(self, plan: Plan) -> list[str]:
        """Settings out of range, or minibatches that do not divide the batch."""
        found = super().faults(plan)
        positive = {"epochs": self.epochs, "minibatches": self.minibatches, "clip": self.clip}
        found += [f"{n} must be positive, not {v}" for n, v in positive.items() if not v > 0]
        shares = {"gamma": self.gamma, "lam": self.lam}
        found += [
            f"{n} must be within 0 and 1, not {v}" for n, v in shares.items() if not 0 <= v <= 1
        ]
        if _measures_noise(plan) and self.minibatches == 1:
            found.append("the gradient noise scale is measured between minibatches: have 2 or more")
        return found + self._indivisible(plan)

    def _indivisible(self, plan: Plan) -> list[str]:
        each = plan.envs * plan.steps
        if self.minibatches < 1 or each < 1:
            return []
        actors = [n for n in plan.at_work.numbers() if n * each % self.minibatches]
        return [
            f"{n} actors x {plan.envs} envs x {plan.steps} steps = {n * each} rows do not divide "
            f"into {self.minibatches} minibatches: change minibatches, steps or envs"
            for n in actors[:1]
        ]

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """One PPO update on a full batch: ``epochs`` passes over shuffled minibatches."""
        began = time.perf_counter()
        if self.anneal:
            self.adam.set_lr(self.lr * max(0.0, 1.0 - call.progress))
        data = self._prepare(batch)
        gathered = time.perf_counter()
        order = np.random.default_rng((self.context.seed, call.firing))
        metrics: dict[str, Tensor] = {}
        for epoch in range(self.epochs):
            self.adam.observe = self._noise.add if self._noise and epoch == 0 else None
            for index in batch.minibatches(self.minibatches, order):
                metrics = self._minibatch(batch, data, index)
            if self.target_kl is not None and float(metrics["approx_kl"]) > self.target_kl:
                break
        self._seconds = {"gather": gathered - began, "learn": time.perf_counter() - gathered}
        result = {name: float(value) for name, value in metrics.items()}
        result["lr"] = self.adam.optimizer.param_groups[0]["lr"]
        if self._noise is not None:
            result["noise_scale"] = self._noise.estimate(len(batch))
        return result | _explained_variance(data)

    def seconds(self) -> Mapping[str, float]:
        """Seconds of the last update spent gathering and learning."""
        return self._seconds

    def _prepare(self, batch: Batch) -> dict[str, Tensor]:
        valid = batch.gather("valid") if "valid" in batch.names else None
        advantage, returns = advantages(
            batch.gather("rewards"),
            batch.gather("values"),
            batch.gather("bootstraps"),
            batch.gather("terminations"),
            batch.gather("truncations"),
            self.gamma,
            self.lam,
            valid,
        )
        arrays = {"advantages": advantage, "returns": returns}
        arrays |= {n: batch.gather(n) for n in ("actions", "log_probs", "values")}
        arrays |= {n: batch.gather(n) for n in self._parts if n not in self._large}
        if valid is not None:
            arrays["valid"] = valid
        return {n: self.tensor(a.reshape(len(batch), *a.shape[3:])) for n, a in arrays.items()}

    def _minibatch(
        self, batch: Batch, data: Mapping[str, Tensor], index: np.ndarray
    ) -> dict[str, Tensor]:
        at = self.tensor(index)
        few = {name: tensor[at] for name, tensor in data.items()}
        observations = {
            key: self.tensor(batch.take(key, index)) if key in self._large else few[key]
            for key in self._parts
        }
        module: Any = self.module
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bfloat16):
            log_probs, entropy, values = module.evaluate(observations, few["actions"])
        loss, metrics = ppo_loss(
            log_probs.float(),
            few["log_probs"],
            self._normalized(few["advantages"]),
            values.float(),
            few["values"],
            few["returns"],
            entropy.float(),
            self.clip,
            self.value_clip,
            self.vf_coef,
            self.ent_coef,
            few.get("valid"),
        )
        self.step(loss)
        return metrics

    def _normalized(self, values: Tensor) -> Tensor:
        return (values - values.mean()) / (values.std() + 1e-8) if self.normalize else values


def _measures_noise(plan: Plan) -> bool:
    return isinstance(plan.scaling, NoiseScale)


def _explained_variance(data: Mapping[str, Tensor]) -> dict[str, float]:
    returns, values = data["returns"], data["values"]
    spread = float(returns.var())
    return {"explained_variance": 1.0 - float((returns - values).var()) / spread if spread else 0.0}
