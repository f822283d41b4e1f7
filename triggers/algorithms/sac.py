"""SAC (Haarnoja et al. 2018b): its settings, its update, its table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from artos.buffer.samplers.drawn_batch import DrawnBatch
from artos.envs.spec import EnvSpec
from artos.learners.off_policy import Obs
from artos.learners.settings import (
    ClipRewards,
    ReplaySettings,
    TargetShare,
    TerminalLives,
    builder,
)
from artos.learners.soft import SoftLearner, SoftSettings
from artos.policies.analytic_critics import AnalyticGaussian
from artos.policies.squashed import Softmax, SquashedGaussian
from artos.specs.workload import Workload
from triggers.algorithms.replaying import critics_workload, replay_actor


class SACSettings(SoftSettings, kw_only=True, frozen=True):
    """What can be set of SAC, with its defaults."""

    clip_rewards: ClipRewards = None
    terminal_lives: TerminalLives = False
    tau: TargetShare = 0.005


class SAC(SoftLearner):
    """Maximises return plus entropy with two critics and their slow targets."""

    Settings: ClassVar[type[ReplaySettings]] = SACSettings
    settings: SACSettings

    def setup(self, context: Any) -> None:
        """Also own two critics and their targets, and find out whether autograd is needed."""
        super().setup(context)
        self.own_critics(self.settings.hidden, self.settings.critic_lr)
        policy = AnalyticGaussian.of(self.module)
        self._analytic = self.written_down(policy, SAC, "chosen")

    def learn(self, batch: DrawnBatch) -> Mapping[str, Tensor]:
        """A step of the critics, then of the policy, then of the temperature."""
        obs = self.observations(batch)
        temperature = self.log_temperature().detach().exp()
        critic_loss, errors, q = self._critics_stepped(
            obs, self.following(batch), self.rows(batch), temperature, self.drawn()
        )
        policy_loss, entropy = self.improve(obs, temperature)
        self.targets.follow(self.critics, self.settings.tau)
        batch.prioritise(errors.abs().mean(0).cpu().numpy())
        return {
            "critic_loss": critic_loss,
            "policy_loss": policy_loss,
            "entropy": entropy,
            "temperature": temperature,
            "q": q,
        }

    def _critics_stepped(
        self, obs: Obs, following: Obs, rows: Mapping[str, Tensor], temperature: Tensor,
        noise: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """What ``_critic_loss`` was before the step."""
        if self._analytic is None:
            loss, errors, q = self.compiler(
                self._critic_loss, obs, following, rows, temperature, noise
            )
            self.critics.step(loss)
            return loss.detach(), errors, q
        assert noise is not None
        drawn, logs = self._analytic.policy.sample(following, noise)
        value = self._analytic.targets.evaluate(following, drawn).amin(0) - temperature * logs
        return self.fit(self._analytic.critics, obs, rows, self.wanted(rows, value), 1.0)

    def climb(self, obs: Obs, temperature: Tensor) -> tuple[Tensor, Tensor]:
        """A step of the policy; returns the loss and the entropy, without gradients."""
        if self._analytic is None:
            return super().climb(obs, temperature)
        policy, critics = self._analytic.policy, self._analytic.critics
        actions, logs = policy.sample(obs, self.noise(self.module.bounds.size))
        values = critics.evaluate(obs, actions)
        least = values.amin(0)
        each, lowest = self.replicas.share / len(actions), values == least
        of_actions = critics.of_actions(-each * lowest / lowest.sum(0))
        policy.backward(of_actions, (each * temperature).expand_as(logs))
        self.network.step_written()
        return (temperature * logs - least).mean(), -logs.mean()

    def _critic_loss(
        self, obs: Obs, following: Obs, rows: Mapping[str, Tensor], temperature: Tensor,
        noise: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """The loss of eq. 5, and without gradients the errors (2, n) and the mean value."""
        with torch.no_grad():  # soft values (Haarnoja et al. 2018b, eq. 3), by the smaller target
            if self.continuous:
                drawn, logs = self.module.sample(following, noise)
                value = self.targets(following, drawn).amin(0) - temperature * logs
            else:
                logs = self.module(following)
                soft = self.targets(following).amin(0) - temperature * logs
                value = (logs.exp() * soft).sum(-1)
        wanted = self.wanted(rows, value)
        if self.continuous:
            found = self.critics(obs, self.module.bounds.unit(rows["actions"]))
        else:
            each, actions = self.critics(obs), rows["actions"]
            found = each.gather(2, actions.expand(len(each), -1).unsqueeze(2)).squeeze(2)
        errors = found - wanted
        loss = 0.5 * (rows["weights"] * errors.square()).sum(0).mean()
        return loss, errors.detach(), found.detach().mean()


@builder(SACSettings)
def workload(settings: SACSettings) -> Workload:
    """Soft actor-critic on continuous actions with bounds, or on discrete ones.

    Actors and learner work at the same time; after ``after`` transitions each one is drawn
    ``ratio`` times on average, by default one update per environment step.
    """
    s = settings

    def policy(spec: EnvSpec, first: int) -> Any:
        kind = SquashedGaussian if spec.actions.kind == "box" else Softmax
        return partial(kind, hidden=s.hidden, random=first, normalize=s.normalize)

    actor = replay_actor(s, "SAC", ("box", "discrete"), policy)
    return critics_workload("sac", actor, SAC(settings), settings)
