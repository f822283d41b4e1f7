"""What learners of action values have in common: a target network, and priorities by error."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from torch import Tensor

from artos.buffer.samplers.drawn_batch import DrawnBatch
from artos.learners.off_policy import Obs, OffPolicyLearner
from artos.learners.settings import (
    ClipRewards,
    LongestGradient,
    ReplaySettings,
    TargetShare,
    TerminalLives,
    learner,
)


class QSettings(ReplaySettings, kw_only=True, frozen=True):
    """Of algorithms that learn the values of discrete actions."""

    clip_rewards: ClipRewards = None
    terminal_lives: TerminalLives = False
    target_every: Annotated[int, learner("updates between moves of the target", ge=1)] = 1
    tau: TargetShare = 0.005
    max_grad_norm: LongestGradient = 10.0


class QLearner(OffPolicyLearner):
    """Write ``loss(obs, following, rows)``.

    Every ``target_every`` updates the target goes ``tau`` of the way to the network: by default a
    little each time (Lillicrap et al. 2016). The way of DQN's paper is ``target_every=10_000`` with
    ``tau=1``.
    """

    Settings: ClassVar[type[ReplaySettings]] = QSettings
    settings: QSettings
    noisy_rows: ClassVar[bool] = False  # networks that explore by noise have one for all rows

    def __init__(self, settings: QSettings | None = None, /, **given: Any) -> None:
        """With these settings, or with those given by name and defaults for the others."""
        super().__init__(settings, **given)
        self.max_grad_norm = self.settings.max_grad_norm

    def setup(self, context: Any) -> None:
        """Own a target beside the policy's network."""
        super().setup(context)
        self.target = self.own("target", copy.deepcopy(self.module))

    def learn(self, batch: DrawnBatch) -> Mapping[str, Tensor]:
        """A step on the loss, whose parts become the rows' priorities."""
        loss, errors, q = self._stepped_on(batch)
        if self.network.steps % self.settings.target_every == 0:
            self.target.follow(self.network, self.settings.tau)
        batch.prioritise(errors.cpu().numpy())
        return {"loss": loss.detach(), "q": q}

    def _stepped_on(self, batch: DrawnBatch) -> tuple[Tensor, Tensor, Tensor]:
        """What a batch was ``judged`` as before the step."""
        loss, errors, q = self.judged(batch)
        self.step(loss)
        return loss, errors, q

    def judged(self, batch: DrawnBatch) -> tuple[Tensor, Tensor, Tensor]:
        """The loss of a batch, and without gradients its priorities (n,) and the mean value."""
        return self.compiler(
            self.loss, self.observations(batch), self.following(batch), self.rows(batch)
        )

    def loss(
        self, obs: Obs, following: Obs, rows: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The loss, and without gradients the rows' priorities (n,) and the mean value."""
        raise NotImplementedError
