"""TD3 (Fujimoto et al. 2018): its settings, its update, its table."""

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


class TD3Settings(CriticsSettings, kw_only=True, frozen=True):
    """What can be set of TD3, with its defaults."""

    critic_lr: Annotated[float, learner("step size of the critics", gt=0)] = 1e-3
    noise: Annotated[float, table("deviation of the exploration, in half the range")] = 0.1
    tau: TargetShare = 0.005
    target_noise: Annotated[float, learner("deviation that smooths the target", ge=0)] = 0.2
    target_clip: Annotated[float, learner("bound of that noise", gt=0)] = 0.5
    delay: Annotated[int, learner("updates of the critics in one of the policy", ge=1)] = 2


class TD3(DeterministicLearner):
    """Two critics, smoothed targets, a policy that steps less often.

    The target's action gets noise of deviation ``target_noise``, clipped to ``target_clip``, in
    units of -1 ... 1; the policy and all targets move every ``delay`` updates.
    """

    Settings: ClassVar[type[ReplaySettings]] = TD3Settings
    settings: TD3Settings
    noisy_rows: ClassVar[bool] = False

    def setup(self, context: Any) -> None:
        """Also own critics and their targets, and find out whether autograd is needed."""
        super().setup(context)
        self.own_critics(self.settings.hidden, self.settings.critic_lr)
        self._analytic = self.written_down(AnalyticDeterministic.of(self.module), TD3)

    def learn(self, batch: DrawnBatch) -> Mapping[str, Tensor]:
        """A step of the critics and, every ``delay`` updates, of the policy."""
        obs = self.observations(batch)
        loss, errors, q = self._critics_stepped(
            obs, self.following(batch), self.rows(batch), self.noise(self.module.bounds.size)
        )
        if self.critics.steps % self.settings.delay == 0:
            self.climb(obs, self._analytic)
            self.targets.follow(self.critics, self.settings.tau)
            self.target.follow(self.network, self.settings.tau)
        batch.prioritise(errors.abs().mean(0).cpu().numpy())
        return {"critic_loss": loss, "q": q}

    def _critics_stepped(
        self, obs: Obs, following: Obs, rows: Mapping[str, Tensor], noise: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What ``_critic_loss`` was before the step."""
        if self._analytic is None:
            loss, errors, q = self.compiler(self._critic_loss, obs, following, rows, noise)
            self.critics.step(loss)
            return loss.detach(), errors, q
        value = self._analytic.targets.evaluate(following, self._smoothed(following, noise))
        return self.fit(self._analytic.critics, obs, rows, self.wanted(rows, value.amin(0)), 2.0)

    def _critic_loss(
        self, obs: Obs, following: Obs, rows: Mapping[str, Tensor], noise: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The critics' loss, and without gradients the errors (2, n) and the mean value."""
        with torch.no_grad():
            value = self.targets(following, self._smoothed(following, noise)).amin(0)
        wanted = self.wanted(rows, value)
        found = self.critics(obs, self.module.bounds.unit(rows["actions"]))
        errors = found - wanted
        loss = (rows["weights"] * errors.square()).sum(0).mean()
        return loss, errors.detach(), found.detach().mean()

    @torch.no_grad()
    def _smoothed(self, following: Obs, noise: Tensor) -> Tensor:
        """The target's actions with noise."""
        most = self.settings.target_clip
        noise = (noise * self.settings.target_noise).clamp(-most, most)
        smoothed: Tensor = self.module.bounds.freed((self.target(following) + noise).clamp(-1, 1))
        return smoothed


@builder(TD3Settings)
def workload(settings: TD3Settings) -> Workload:
    """Twin delayed policy gradients on continuous actions with bounds.

    Actors and learner work at the same time; after ``after`` transitions each one is drawn
    ``ratio`` times on average, by default one update per environment step.
    """
    return deterministic_workload("td3", TD3(settings), settings, settings.noise)
