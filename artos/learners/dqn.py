"""Deep Q-learning: the update; its trigger table is in ``triggers.algorithms.dqn``."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from artos.buffer.samplers.drawn_batch import DrawnBatch
from artos.learners.compiler import Switch
from artos.learners.off_policy import Obs, OffPolicyLearner
from artos.learners.ranges import at_least_one


class DQN(OffPolicyLearner):
    """Q-learning with a target network (Mnih et al. 2015).

    ``double`` chooses the following action by the network and rates it by the target (van Hasselt
    et al. 2016). Every ``target_every`` updates the target goes ``tau`` of the way to the network.
    """

    def __init__(
        self,
        *,
        lr: float = 1e-3,
        double: bool = True,
        tau: float = 1.0,
        target_every: int = 250,
        sync: int = 8,
        max_grad_norm: float | None = 10.0,
        threads: int = 0,
        compile: Switch = "off",
    ) -> None:
        super().__init__(
            lr=lr, tau=tau, sync=sync, max_grad_norm=max_grad_norm, threads=threads,
            compile=compile,
        )  # fmt: skip
        self.double, self.target_every = double, target_every

    def setup(self, context: Any) -> None:
        """Own a target beside the policy's network."""
        super().setup(context)
        self.target = self.own("target", copy.deepcopy(self.module))

    def learn(self, batch: DrawnBatch) -> Mapping[str, Tensor]:
        """A step on Huber's loss of the TD errors, which become the rows' priorities."""
        loss, errors, q = self.compiler(
            self._loss, self.observations(batch), self.following(batch), self.rows(batch)
        )
        self.step(loss)
        if self.network.steps % self.target_every == 0:
            self.target.follow(self.network, self.tau)
        batch.prioritise(errors.abs().cpu().numpy())
        return {"loss": loss.detach(), "q": q}

    def _loss(
        self, obs: Obs, following: Obs, rows: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Huber's loss, and without gradients the TD errors (n,) and the mean value."""
        wanted = self.wanted(rows, self._value(following))
        found = self.module(obs).gather(1, rows["actions"].unsqueeze(1)).squeeze(1)
        each = functional.smooth_l1_loss(found, wanted, reduction="none")
        seen = found.detach()
        return (rows["weights"] * each).mean(), seen - wanted, seen.mean()

    @torch.no_grad()
    def _value(self, following: Obs) -> Tensor:
        values: Tensor = self.target(following)
        if not self.double:
            return values.max(1).values
        best = self.module(following).argmax(1, keepdim=True)
        return values.gather(1, best).squeeze(1)

    def out_of_range(self) -> Iterator[str]:
        """See ``TorchLearner.out_of_range``."""
        yield from super().out_of_range()
        yield from at_least_one(target_every=self.target_every)
