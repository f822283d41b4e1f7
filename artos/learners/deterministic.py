"""What learners of a deterministic policy have in common (Lillicrap et al. 2015)."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import torch
from torch import Tensor

from artos.learners.off_policy import CRITIC_LR, Obs, OffPolicyLearner
from artos.policies.analytic_critics import AnalyticClimb, AnalyticDeterministic
from artos.specs.configuration import Changeable


class DeterministicLearner(OffPolicyLearner):
    """A policy that climbs the first of the critics, which a subclass owns."""

    changeable: ClassVar[tuple[Changeable, ...]] = (*OffPolicyLearner.changeable, CRITIC_LR)

    def setup(self, context: Any) -> None:
        """Own a target of the policy."""
        super().setup(context)
        self.target = self.own("target", copy.deepcopy(self.module))

    def climb(self, obs: Obs, analytic: AnalyticClimb[AnalyticDeterministic] | None) -> Tensor:
        """A step of the policy; returns its loss, without gradients."""
        if analytic is None:
            with self.critics.fixed():
                loss = self.compiler(self._policy_loss, obs)
            self.step(loss)
            return loss.detach()
        values = analytic.critics.evaluate(obs, analytic.policy.evaluate(obs), first=1)
        each = torch.full_like(values, -self.replicas.share / values.numel())
        analytic.policy.backward(analytic.critics.of_actions(each))
        self.network.step_written()
        return -values.mean()

    def _policy_loss(self, obs: Obs) -> Tensor:
        """Eq. 6: the gradient of the critic's value by the policy's actions."""
        loss: Tensor = -self.critics(obs, self.module(obs))[0].mean()
        return loss
