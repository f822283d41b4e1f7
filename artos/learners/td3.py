"""Twin delayed policy gradients: the update; its table is in ``triggers.algorithms.td3``."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from artos.buffer.samplers.drawn_batch import DrawnBatch
from artos.learners.compiler import Switch
from artos.learners.off_policy import Obs, OffPolicyLearner
from artos.learners.ranges import at_least_one, not_negative, positive


class TD3(OffPolicyLearner):
    """Two critics, smoothed targets, a policy that steps less often (Fujimoto et al. 2018).

    The target's action gets noise of deviation ``target_noise``, clipped to ``target_clip``, in
    units of -1 ... 1; the policy and all targets move every ``delay`` updates.
    """

    def __init__(
        self,
        *,
        lr: float = 1e-3,
        critic_lr: float = 1e-3,
        target_noise: float = 0.2,
        target_clip: float = 0.5,
        delay: int = 2,
        hidden: Sequence[int] = (256, 256),
        tau: float = 0.005,
        sync: int = 8,
        threads: int = 0,
        compile: Switch = "off",
    ) -> None:
        super().__init__(lr=lr, tau=tau, sync=sync, threads=threads, compile=compile)
        self.critic_lr, self.hidden, self.delay = critic_lr, tuple(hidden), delay
        self.target_noise, self.target_clip = target_noise, target_clip

    def setup(self, context: Any) -> None:
        """Own critics, and targets of critics and policy."""
        super().setup(context)
        self.own_critics(self.hidden, self.critic_lr)
        self.target = self.own("target", copy.deepcopy(self.module))

    def learn(self, batch: DrawnBatch) -> Mapping[str, Tensor]:
        """A step of the critics and, every ``delay`` updates, of the policy."""
        obs = self.observations(batch)
        loss, errors, q = self.compiler(
            self._critic_loss, obs, self.following(batch), self.rows(batch)
        )
        self.critics.step(loss)
        if self.critics.steps % self.delay == 0:
            with self.critics.fixed():
                policy_loss = self.compiler(self._policy_loss, obs)
            self.step(policy_loss)
            self.targets.follow(self.critics, self.tau)
            self.target.follow(self.network, self.tau)
        batch.prioritise(errors.abs().mean(0).cpu().numpy())
        return {"critic_loss": loss.detach(), "q": q}

    def _critic_loss(
        self, obs: Obs, following: Obs, rows: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The critics' loss, and without gradients the errors (2, n) and the mean value."""
        wanted = self.wanted(rows, self._value(following))
        found = self.critics(obs, self.module.bounds.unit(rows["actions"]))
        errors = found - wanted
        loss = (rows["weights"] * errors.square()).sum(0).mean()
        return loss, errors.detach(), found.detach().mean()

    def _policy_loss(self, obs: Obs) -> Tensor:
        loss: Tensor = -self.critics(obs, self.module(obs))[0].mean()
        return loss

    @torch.no_grad()
    def _value(self, following: Obs) -> Tensor:
        actions = self.target(following)
        noise = (torch.randn_like(actions) * self.target_noise).clamp(
            -self.target_clip, self.target_clip
        )
        smoothed = self.module.bounds.freed((actions + noise).clamp(-1, 1))
        found: Tensor = self.targets(following, smoothed).amin(0)
        return found

    def out_of_range(self) -> Iterator[str]:
        """See ``TorchLearner.out_of_range``."""
        yield from super().out_of_range()
        yield from positive(critic_lr=self.critic_lr, target_clip=self.target_clip)
        yield from at_least_one(delay=self.delay)
        yield from not_negative(target_noise=self.target_noise)
