"""SAC (Haarnoja et al. 2018b): its settings, its update, its table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from artos.buffer.samplers.drawn_batch import DrawnBatch
from artos.envs.spec import EnvSpec
from artos.learners.network import Network
from artos.learners.off_policy import CRITIC_LR, Obs, OffPolicyLearner
from artos.learners.settings import (
    ClipRewards,
    CriticsSettings,
    ReplaySettings,
    TargetShare,
    TerminalLives,
    builder,
    learner,
)
from artos.policies.bounds import units_of
from artos.policies.squashed import Softmax, SquashedGaussian
from artos.specs.configuration import Changeable
from artos.specs.keys import MASK_KEY
from artos.specs.workload import Workload
from triggers.algorithms.replaying import critics_workload, replay_actor


class SoftSettings(CriticsSettings, kw_only=True, frozen=True):
    """Of algorithms that maximise return plus entropy."""

    lr: Annotated[float, learner("step size of the policy")] = 3e-4
    critic_lr: Annotated[float, learner("step size of the critics", gt=0)] = 3e-4
    temperature: Annotated[float, learner("weight of the entropy at first", gt=0)] = 1.0
    temperature_lr: Annotated[float, learner("step size of that weight; 0: keep it", ge=0)] = 3e-4
    target_entropy: Annotated[
        float | None, learner("wanted entropy; none: by the action space", of="temperature_lr")
    ] = None


class SACSettings(SoftSettings, kw_only=True, frozen=True):
    """What can be set of SAC, with its defaults."""

    clip_rewards: ClipRewards = None
    terminal_lives: TerminalLives = False
    tau: TargetShare = 0.005


class SoftLearner(OffPolicyLearner):
    """The policy and the temperature of SAC, for critics that a subclass owns as ``critics``.

    The temperature, from ``temperature`` on, is learned with step size ``temperature_lr`` such that
    the entropy is ``target_entropy``: by default minus the number of action dimensions that are
    free, and for discrete actions ``0.5 log(choices)``. A ``temperature_lr`` of 0 keeps it.
    Discrete actions take expectations over all of them instead of samples (Christodoulou 2019).
    """

    settings: SoftSettings
    critics: Network
    noisy_rows: ClassVar[bool] = False
    changeable: ClassVar[tuple[Changeable, ...]] = (*OffPolicyLearner.changeable, CRITIC_LR)

    def setup(self, context: Any) -> None:
        """Own the logarithm of the temperature."""
        super().setup(context)
        actions, s = context.spec.actions, self.settings
        self.continuous = actions.kind == "box"
        start = torch.tensor(math.log(s.temperature))
        self.log_temperature = self.own("log_temperature", start, lr=s.temperature_lr or None)
        if self.continuous:
            self._entropy = -float(np.count_nonzero(units_of(actions)[1]))
        else:
            self._entropy = 0.5 * math.log(actions.sizes[0])

    def improve(self, obs: Obs, temperature: Tensor) -> tuple[Tensor, Tensor]:
        """A step of the policy, then of the temperature; returns the loss and the entropy."""
        with self.critics.fixed():
            loss, entropy = self.compiler(self._policy_loss, obs, temperature, self.drawn())
        self.step(loss)
        if self.settings.temperature_lr:
            set_to = self.settings.target_entropy
            wanted: Tensor | float = self._entropy if set_to is None else set_to
            if MASK_KEY in obs and set_to is None:
                wanted = 0.5 * obs[MASK_KEY].sum(1).log().mean()  # by how many may be chosen
            self.log_temperature.step(self.log_temperature() * (entropy - wanted))
        return loss.detach(), entropy

    def drawn(self) -> Tensor | None:
        """What actions of all rows are sampled by; None where they are discrete."""
        return self.noise(self.module.bounds.size) if self.continuous else None

    def chosen(self, obs: Obs, noise: Tensor | None) -> tuple[Tensor, Tensor]:
        """Actions that a step of the policy is made of, and their log probabilities."""
        found: tuple[Tensor, Tensor] = self.module.sample(obs, noise)
        return found

    def _policy_loss(
        self, obs: Obs, temperature: Tensor, noise: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The loss of eq. 7, and the mean entropy without gradients."""
        if self.continuous:
            actions, logs = self.chosen(obs, noise)
            values = self.critics(obs, actions).amin(0)
            return (temperature * logs - values).mean(), -logs.detach().mean()
        logs = self.module(obs)
        values = self.critics(obs).amin(0)
        loss = (logs.exp() * (temperature * logs - values)).sum(-1).mean()
        return loss, -(logs.exp() * logs).sum(-1).mean().detach()


class SAC(SoftLearner):
    """Maximises return plus entropy with two critics and their slow targets."""

    Settings: ClassVar[type[ReplaySettings]] = SACSettings
    settings: SACSettings

    def setup(self, context: Any) -> None:
        """Also own two critics and their targets."""
        super().setup(context)
        self.own_critics(self.settings.hidden, self.settings.critic_lr)

    def learn(self, batch: DrawnBatch) -> Mapping[str, Tensor]:
        """A step of the critics, then of the policy, then of the temperature."""
        obs = self.observations(batch)
        temperature = self.log_temperature().detach().exp()
        critic_loss, errors, q = self.compiler(
            self._critic_loss, obs, self.following(batch), self.rows(batch), temperature,
            self.drawn(),
        )  # fmt: skip
        self.critics.step(critic_loss)
        policy_loss, entropy = self.improve(obs, temperature)
        self.targets.follow(self.critics, self.settings.tau)
        batch.prioritise(errors.abs().mean(0).cpu().numpy())
        return {
            "critic_loss": critic_loss.detach(),
            "policy_loss": policy_loss,
            "entropy": entropy,
            "temperature": temperature,
            "q": q,
        }

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
