"""Deep Q-learning: the update; its trigger table is in ``triggers.algorithms.dqn``."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from artos.buffer.samplers.drawn_batch import DrawnBatch
from artos.learners.off_policy import OffPolicyLearner
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
    ) -> None:
        super().__init__(lr=lr, tau=tau, sync=sync, max_grad_norm=max_grad_norm, threads=threads)
        self.double, self.target_every = double, target_every

    def setup(self, context: Any) -> None:
        """Own a target beside the policy's network."""
        super().setup(context)
        self.target = self.own("target", copy.deepcopy(self.module))

    def learn(self, batch: DrawnBatch) -> Mapping[str, Tensor]:
        """A step on Huber's loss of the TD errors, which become the rows' priorities."""
        wanted = self.wanted(batch, self._value(batch))
        actions = self.tensor(batch["actions"]).unsqueeze(1)
        found = self.module(self.observations(batch)).gather(1, actions).squeeze(1)
        each = functional.smooth_l1_loss(found, wanted, reduction="none")
        loss = (self.tensor(batch.weights) * each).mean()
        self.step(loss)
        if self.network.steps % self.target_every == 0:
            self.target.follow(self.network, self.tau)
        found = found.detach()
        batch.prioritise((found - wanted).abs().cpu().numpy())
        return {"loss": loss.detach(), "q": found.mean()}

    @torch.no_grad()
    def _value(self, batch: DrawnBatch) -> Tensor:
        following = self.following(batch)
        values: Tensor = self.target(following)
        if not self.double:
            return values.max(1).values
        best = self.module(following).argmax(1, keepdim=True)
        return values.gather(1, best).squeeze(1)

    def out_of_range(self) -> Iterator[str]:
        """See ``TorchLearner.out_of_range``."""
        yield from super().out_of_range()
        yield from at_least_one(target_every=self.target_every)
