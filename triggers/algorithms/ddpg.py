"""DDPG (Lillicrap et al. 2015): its settings, its update, its table."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from artos.buffer.samplers.drawn_batch import DrawnBatch
from artos.learners.off_policy import CRITIC_LR, Obs, OffPolicyLearner
from artos.learners.settings import (
    CriticsSettings,
    ReplaySettings,
    TargetShare,
    builder,
    learner,
    table,
)
from artos.specs.configuration import Changeable
from artos.specs.workload import Workload
from triggers.algorithms.replaying import deterministic_workload


class DDPGSettings(CriticsSettings, kw_only=True, frozen=True):
    """What can be set of DDPG, with its defaults."""

    critic_lr: Annotated[float, learner("step size of the critic", gt=0)] = 1e-3
    noise: Annotated[float, table("deviation of the exploration, in half the range")] = 0.1
    tau: TargetShare = 0.005


class DDPG(OffPolicyLearner):
    """One critic, and a policy that climbs it.

    Noise is independent from step to step: that of the paper, which is not, was found to be no
    better (Fujimoto et al. 2018, §6.1).
    """

    Settings: ClassVar[type[ReplaySettings]] = DDPGSettings
    settings: DDPGSettings
    changeable: ClassVar[tuple[Changeable, ...]] = (*OffPolicyLearner.changeable, CRITIC_LR)

    @property
    def outputs(self) -> int:
        """Those of the critic, for a state and an action."""
        return 1

    def setup(self, context: Any) -> None:
        """Own a critic, and targets of critic and policy."""
        super().setup(context)
        self.own_critics(self.settings.hidden, self.settings.critic_lr, 1, self.outputs)
        self.target = self.own("target", copy.deepcopy(self.module))

    def learn(self, batch: DrawnBatch) -> Mapping[str, Tensor]:
        """A step of the critic, then of the policy, then of both targets."""
        obs = self.observations(batch)
        loss, errors, q = self.compiler(
            self._critic_loss, obs, self.following(batch), self.rows(batch)
        )
        self.critics.step(loss)
        with self.critics.fixed():
            policy_loss = self.compiler(self._policy_loss, obs)
        self.step(policy_loss)
        self.targets.follow(self.critics, self.settings.tau)
        self.target.follow(self.network, self.settings.tau)
        batch.prioritise(errors.abs().cpu().numpy())
        return {"critic_loss": loss.detach(), "policy_loss": policy_loss.detach(), "q": q}

    def _critic_loss(
        self, obs: Obs, following: Obs, rows: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The critic's loss, and without gradients the errors (n,) and the mean value."""
        with torch.no_grad():
            value = self.targets(following, self.target(following)).squeeze(0)
        found = self.critics(obs, self.module.bounds.unit(rows["actions"])).squeeze(0)
        errors = found - self.wanted(rows, value)
        loss = (rows["weights"] * errors.square()).mean()
        return loss, errors.detach(), found.detach().mean()

    def _policy_loss(self, obs: Obs) -> Tensor:
        """Eq. 6: the gradient of the critic's value by the policy's actions."""
        loss: Tensor = -self.critics(obs, self.module(obs)).mean()
        return loss


@builder(DDPGSettings)
def workload(settings: DDPGSettings) -> Workload:
    """Deep deterministic policy gradients on continuous actions with bounds.

    Actors and learner work at the same time; after ``after`` transitions each one is drawn
    ``ratio`` times on average, by default one update per environment step.
    """
    return deterministic_workload("ddpg", DDPG(settings), settings, settings.noise)
