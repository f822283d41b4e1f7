"""CrossQ (Bhatt et al. 2024): its settings, its update, its table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from artos.buffer.samplers.drawn_batch import DrawnBatch
from artos.envs.spec import EnvSpec
from artos.learners.off_policy import Obs
from artos.learners.optimisers import Adam
from artos.learners.settings import ReplaySettings, builder, learner
from artos.learners.soft import SoftLearner, SoftSettings
from artos.learners.summed import mean_of_all
from artos.policies.encoders import normalizers
from artos.policies.renormed import RenormCritics, RenormGaussian
from artos.runs.plan import Plan
from artos.specs.workload import Workload
from triggers.algorithms.replaying import critics_workload, replay_actor

_BETAS = (0.5, 0.999)
_COMPILED = (
    "compile=on: the statistics of CrossQ's layers are added up over {} in mid-pass, "
    "which is not compiled: leave out one of both"
)


class CrossQSettings(SoftSettings, kw_only=True, frozen=True):
    """What can be set of CrossQ, with its defaults."""

    lr: Annotated[float, learner("step size of the policy")] = 1e-3
    critic_lr: Annotated[float, learner("step size of the critics", gt=0)] = 1e-3
    temperature_lr: Annotated[float, learner("step size of that weight; 0: keep it", ge=0)] = 1e-3
    critic_hidden: Annotated[
        tuple[int, ...], learner("units of the critics' hidden layers; 2048,2048 in the paper")
    ] = (512, 512)
    delay: Annotated[int, learner("updates of the critics in one of the policy", ge=1)] = 3
    renorm_after: Annotated[
        int, learner("batches of a network before its statistics are corrected", ge=0)
    ] = 100_000


class CrossQ(SoftLearner):
    """SAC without targets, as critics with batch normalisation are stable without them.

    States with the actions that were taken, and the states after with those that the policy takes
    there, pass through the critics as one batch, so that both are normalised alike. The
    policy, which is normalised too, climbs the critics as running statistics normalise them, and
    acts by its own running statistics. Adam's first moments decay by 0.5.
    """

    Settings: ClassVar[type[ReplaySettings]] = CrossQSettings
    settings: CrossQSettings

    def optimiser(self) -> Adam:
        """The policy's."""
        return Adam(self.settings.lr, betas=_BETAS)

    def faults(self, plan: Plan) -> list[str]:
        """Also replicas whose sums would be in the middle of what is compiled."""
        several = self.settings.compile == "on" and plan.replicas > 1
        return [
            *super().faults(plan),
            *([_COMPILED.format(plan.replicas_setting)] if several else []),
        ]

    def setup(self, context: Any) -> None:
        """Also own two wide critics."""
        super().setup(context)
        s, scaled = self.settings, bool(normalizers(self.module))
        critics = RenormCritics(
            self.context.spec, s.critic_hidden, after=s.renorm_after, normalize=scaled
        )
        if not self.replicas.alone:  # statistics are those of a whole batch
            for network in (self.module, critics):
                network.layers.share(partial(mean_of_all, replicas=self.replicas))
        adam = Adam(s.critic_lr, eps=1e-8, betas=_BETAS)
        self.critics = self.own("critics", critics, optimiser=adam)

    def learn(self, batch: DrawnBatch) -> Mapping[str, Tensor]:
        """A step of the critics and, every ``delay`` updates, of policy and temperature."""
        obs = self.observations(batch)
        temperature = self.log_temperature().detach().exp()
        loss, errors, q, entropy = self.compiler(
            self._critic_loss, obs, self.following(batch), self.rows(batch), temperature,
            self.noise(self.module.bounds.size),
        )  # fmt: skip
        self.critics.step(loss)
        if self.critics.steps % self.settings.delay == 0:
            self.improve(obs, temperature)
        batch.prioritise(errors.abs().mean(0).cpu().numpy())
        return {
            "critic_loss": loss.detach(), "entropy": entropy, "temperature": temperature, "q": q
        }  # fmt: skip

    def chosen(self, obs: Obs, noise: Tensor | None) -> tuple[Tensor, Tensor]:
        """By the statistics of these rows, which the running ones then follow."""
        found: tuple[Tensor, Tensor] = self.module.sample(obs, noise, learning=True)
        return found

    def _critic_loss(
        self, obs: Obs, following: Obs, rows: Mapping[str, Tensor], temperature: Tensor,
        noise: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
        """The loss, and without gradients the errors (2, n), the mean value and the entropy."""
        with torch.no_grad():
            drawn, logs = self.module.sample(following, noise)
        both = {key: torch.cat((obs[key], following[key])) for key in obs}
        actions = torch.cat((self.module.bounds.unit(rows["actions"]), drawn))
        values, count = self.critics(both, actions, learning=True), len(drawn)
        found = values[:, :count]
        value = values[:, count:].detach().amin(0) - temperature * logs
        errors = found - self.wanted(rows, value)
        loss = 0.5 * (rows["weights"] * errors.square()).sum(0).mean()
        return loss, errors.detach(), found.detach().mean(), -logs.mean()


@builder(CrossQSettings)
def workload(settings: CrossQSettings) -> Workload:
    """CrossQ on continuous actions with bounds.

    Actors and learner work at the same time; after ``after`` transitions each one is drawn
    ``ratio`` times on average, by default one update per environment step.
    """
    s = settings

    def policy(_: EnvSpec, first: int) -> Any:
        return partial(
            RenormGaussian, hidden=s.hidden, after=s.renorm_after, random=first,
            normalize=s.normalize,
        )  # fmt: skip

    actor = replay_actor(s, "CrossQ", ("box",), policy)
    return critics_workload("crossq", actor, CrossQ(settings), settings)
