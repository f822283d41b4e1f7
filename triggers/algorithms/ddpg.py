"""DDPG (Lillicrap et al. 2015): its settings, its update, its table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from artos.buffer.samplers.drawn_batch import DrawnBatch
from artos.learners.deterministic import DeterministicLearner
from artos.learners.off_policy import Obs
from artos.learners.settings import (
    CriticsSettings,
    ReplaySettings,
    TargetShare,
    builder,
    learner,
    table,
)
from artos.policies.analytic_critics import AnalyticDeterministic
from artos.specs.workload import Workload
from triggers.algorithms.replaying import deterministic_workload


class DDPGSettings(CriticsSettings, kw_only=True, frozen=True):
    """What can be set of DDPG, with its defaults."""

    critic_lr: Annotated[float, learner("step size of the critic", gt=0)] = 1e-3
    noise: Annotated[float, table("deviation of the exploration, in half the range")] = 0.1
    tau: TargetShare = 0.005


class DDPG(DeterministicLearner):
    """One critic, and a policy that climbs it.

    Noise is independent from step to step: that of the paper, which is not, was found to be no
    better (Fujimoto et al. 2018, §6.1).
    """

    Settings: ClassVar[type[ReplaySettings]] = DDPGSettings
    settings: DDPGSettings

    @property
    def outputs(self) -> int:
        """Those of the critic, for a state and an action."""
        return 1

    def setup(self, context: Any) -> None:
        """Also own a critic and its target, and find out whether autograd is needed."""
        super().setup(context)
        self.own_critics(self.settings.hidden, self.settings.critic_lr, 1, self.outputs)
        self._analytic = self.written_down(AnalyticDeterministic.of(self.module), DDPG)

    def learn(self, batch: DrawnBatch) -> Mapping[str, Tensor]:
        """A step of the critic, then of the policy, then of both targets."""
        obs = self.observations(batch)
        loss, errors, q = self._critic_stepped(obs, self.following(batch), self.rows(batch))
        policy_loss = self.climb(obs, self._analytic)
        self.targets.follow(self.critics, self.settings.tau)
        self.target.follow(self.network, self.settings.tau)
        batch.prioritise(errors.abs().cpu().numpy())
        return {"critic_loss": loss, "policy_loss": policy_loss, "q": q}

    def _critic_stepped(
        self, obs: Obs, following: Obs, rows: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What ``_critic_loss`` was before the step."""
        if self._analytic is None:
            loss, errors, q = self.compiler(self._critic_loss, obs, following, rows)
            self.critics.step(loss)
            return loss.detach(), errors, q
        (value,) = self._analytic.targets.evaluate(following, self.target(following))
        wanted = self.wanted(rows, value)
        loss, errors, q = self.fit(self._analytic.critics, obs, rows, wanted, 2.0)
        return loss, errors.squeeze(0), q

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


@builder(DDPGSettings)
def workload(settings: DDPGSettings) -> Workload:
    """Deep deterministic policy gradients on continuous actions with bounds.

    Actors and learner work at the same time; after ``after`` transitions each one is drawn
    ``ratio`` times on average, by default one update per environment step.
    """
    return deterministic_workload("ddpg", DDPG(settings), settings, settings.noise)
