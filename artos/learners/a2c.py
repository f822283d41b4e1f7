"""Advantage actor-critic: the update; its trigger table is in ``triggers.algorithms.a2c``."""

from __future__ import annotations

import time
from typing import Any, ClassVar, Literal

import numpy as np
from torch import Tensor

from artos.buffer.samplers.batch import Batch
from artos.learners.actor_critic import ActorCriticLearner, explained_variance
from artos.learners.compiler import Switch
from artos.learners.optimisers import Adam, Optimiser, RMSprop
from artos.losses.actor_critic import actor_critic_loss
from artos.losses.gae import advantages
from artos.losses.rounds import Floats
from artos.protocol.invocations import Invoke

_KEYS = ("rewards", "bootstraps", "terminations", "truncations")

Stepping = Literal["adam", "rmsprop"]


class A2C(ActorCriticLearner):
    """A2C (Mnih et al. 2016, synchronous): one gradient step with all rows of a batch.

    ``lam=1`` makes advantages of n-step returns, n being what is left of the round; less is GAE.
    """

    reads: ClassVar[tuple[str, ...]] = ("actions", "rewards", "bootstraps")

    def __init__(
        self,
        *,
        lr: float = 1e-3,
        anneal: bool = False,
        optimiser: Stepping = "rmsprop",
        gamma: float = 0.99,
        lam: float = 1.0,
        vf_coef: float = 0.5,
        ent_coef: float = 0.0,
        max_grad_norm: float | None = 0.5,
        normalize_rewards: bool = False,
        bfloat16: bool = False,
        threads: int = 0,
        compile: Switch = "off",
    ) -> None:
        super().__init__(
            lr=lr, anneal=anneal, gamma=gamma, lam=lam, vf_coef=vf_coef, ent_coef=ent_coef,
            max_grad_norm=max_grad_norm, normalize_rewards=normalize_rewards, bfloat16=bfloat16,
            threads=threads, compile=compile,
        )  # fmt: skip
        self.stepping = optimiser

    def optimiser(self) -> Optimiser:
        """As set."""
        return Adam(self.lr) if self.stepping == "adam" else RMSprop(self.lr)

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """One step."""
        began = time.perf_counter()
        self._anneal(call)
        rows = self._rows(batch, ("actions",))
        first = self._unmeasured()
        if first:
            self._count(batch, rows)
        self._seconds = {"gather": time.perf_counter() - began}
        log_probs, entropy, values = self._evaluate(batch, rows, np.arange(len(batch)))
        found = self._estimates(batch, _shaped(log_probs, batch), _shaped(values, batch))
        advantage, target = (self.tensor(array.reshape(-1)) for array in found)
        loss, report = actor_critic_loss(
            log_probs, advantage, values, target, entropy, self.vf_coef, self.ent_coef,
            rows.get("valid"),
        )  # fmt: skip
        self.step(loss)
        if not first:
            self._count(batch, rows)
        metrics = {name: float(value) for name, value in report.items()}
        metrics["lr"] = self.network.optimiser.lr
        return metrics | explained_variance(target, values.detach(), rows.get("valid"))

    def _estimates(self, batch: Batch, log_probs: Floats, values: Floats) -> tuple[Floats, Floats]:
        """Advantages and value targets, by the network's answer for all rows; all (A, T, E)."""
        return advantages(**self._known(batch, values))

    def _known(self, batch: Batch, values: Floats) -> dict[str, Any]:
        """What all estimates are made of."""
        names = (*_KEYS, *(("valid",) if "valid" in batch.names else ()))
        known = {name: batch.gather(name) for name in names}
        known["rewards"] = self._scaled(known["rewards"])
        return known | {"values": values, "gamma": self.gamma, "lam": self.lam}


def _shaped(rows: Tensor, batch: Batch) -> Floats:
    found: Floats = rows.detach().cpu().numpy().reshape(batch.shape)
    return found
