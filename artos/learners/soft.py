"""What learners that maximise return plus entropy have in common (Haarnoja et al. 2018b)."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from artos.learners.network import Network
from artos.learners.off_policy import CRITIC_LR, Obs, OffPolicyLearner
from artos.learners.settings import CriticsSettings, learner
from artos.policies.bounds import units_of
from artos.specs.configuration import Changeable
from artos.specs.keys import MASK_KEY


class SoftSettings(CriticsSettings, kw_only=True, frozen=True):
    """Of algorithms that maximise return plus entropy."""

    lr: Annotated[float, learner("step size of the policy")] = 3e-4
    critic_lr: Annotated[float, learner("step size of the critics", gt=0)] = 3e-4
    temperature: Annotated[float, learner("weight of the entropy at first", gt=0)] = 1.0
    temperature_lr: Annotated[float, learner("step size of that weight; 0: keep it", ge=0)] = 3e-4
    target_entropy: Annotated[
        float | None, learner("wanted entropy; none: by the action space", of="temperature_lr")
    ] = None


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
        loss, entropy = self.climb(obs, temperature)
        if self.settings.temperature_lr:
            set_to = self.settings.target_entropy
            wanted: Tensor | float = self._entropy if set_to is None else set_to
            if MASK_KEY in obs and set_to is None:
                wanted = 0.5 * obs[MASK_KEY].sum(1).log().mean()  # by how many may be chosen
            # The gradient of its logarithm times the gap.
            self.log_temperature.gradient.copy_((entropy - wanted) * self.replicas.share)
            self.log_temperature.step_written()
        return loss, entropy

    def climb(self, obs: Obs, temperature: Tensor) -> tuple[Tensor, Tensor]:
        """A step of the policy; returns the loss and the entropy, without gradients."""
        with self.critics.fixed():
            loss, entropy = self.compiler(self._policy_loss, obs, temperature, self.drawn())
        self.step(loss)
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
