"""Random network distillation (Burda et al. 2018) for PPO: its settings, its update, its table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from artos.buffer.samplers.batch import Batch
from artos.learners.context import LearnerContext
from artos.learners.reward_scale import RewardScale
from artos.learners.sequences import TimeMajor
from artos.learners.settings import (
    ActorCriticSettings,
    ClippedSettings,
    Steps,
    builder,
    fitted,
    learner,
    left_open,
    table,
)
from artos.losses.intrinsic import intrinsic_advantages
from artos.losses.masked import masked_mean
from artos.policies.novelty import Embedding, Scaled, surprise
from artos.specs.workload import Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger
from triggers.algorithms.defaults import actor_critic, divided
from triggers.algorithms.ppo import PPO
from triggers.algorithms.separate import separated

_AT_ONCE = 512
"""Rows: all pixels of a batch as floats are four times its bytes."""


class RNDSettings(ClippedSettings, kw_only=True, frozen=True):
    """What can be set of RND, with its defaults."""

    steps: Steps = 128
    correlation: Annotated[
        float, table("of continuous actions' noise, step to step, 0 to below 1")
    ] = 0.5
    reward_weight: Annotated[float, learner("weight of the environment's rewards", ge=0)] = 2.0
    novelty_weight: Annotated[float, learner("weight of rewards for novelty", ge=0)] = 1.0
    novelty_gamma: Annotated[
        float, learner("discount of later rewards for novelty, 0 to 1", ge=0, le=1)
    ] = 0.99
    novelty_hidden: Annotated[
        tuple[int, ...], learner("units of the hidden layers of the random network")
    ] = (256,)
    features: Annotated[int, learner("outputs of the random network", ge=1)] = 512
    predictor_lr: Annotated[float, learner("step size of the predictor", gt=0)] = 1e-4
    predictor_share: Annotated[
        float, learner("share of each minibatch that the predictor learns from", gt=0, le=1)
    ] = 0.25


class RND(PPO):
    """PPO that is also rewarded for what is new: how far a predictor is from a random network.

    Both see observations scaled by running statistics. Returns of novelty go on beyond ends of
    episodes, so they have a value of their own, which no actor needs: it is a network of the
    learner's, and what actors do and write is as with PPO. Advantages of both are added up. Novelty
    is divided by the deviation of its returns so far.
    """

    Settings: ClassVar[type[ActorCriticSettings]] = RNDSettings
    settings: RNDSettings

    def setup(self, context: LearnerContext) -> None:
        """Also own the random network, its predictor, the value of novelty, and statistics."""
        super().setup(context)
        s, plan, scaled = self.settings, context.plan, Scaled(context.spec)
        spec, hidden, out = scaled.spec, s.novelty_hidden, s.features
        self.scaled = self.own("scaled", scaled)
        self.random = self.own("random", Embedding(spec, hidden, out))
        deeper = Embedding(spec, (*hidden, out, out), out)
        self.predictor = self.own("predictor", deeper, lr=s.predictor_lr)
        self.worth = self.own("worth", Embedding(spec, hidden, 1), lr=s.lr)
        scale = RewardScale(plan.actors, plan.envs, s.novelty_gamma)
        self.novelty_scale = self.own("novelty_scale", scale)

    def step_by(self, lr: float) -> None:
        """Also step the value of novelty by it."""
        super().step_by(lr)
        self.worth.optimiser.lr = lr

    def _unmeasured(self) -> bool:
        """Whether there are statistics that count no rows yet."""
        return super()._unmeasured() or self._newborn()

    def _newborn(self) -> bool:
        scale: Any = self.novelty_scale.module
        return bool(scale.moments[2].item() == 0)

    def _count(self, batch: Batch, rows: Mapping[str, Tensor]) -> None:
        """Also count observations, and the novelty that was learned from."""
        super()._count(batch, rows)
        scaled: Any = self.scaled.module
        valid = batch.gather("valid") if "valid" in batch.names else None
        every = np.arange(len(batch))
        for obs in self._shown(batch, rows, every if valid is None else every[valid.reshape(-1)]):
            scaled.normalizer.update(obs)
        novelty = self._judged(batch, rows)[0] if self._newborn() else rows["novelty"]
        scale: Any = self.novelty_scale.module
        actors = [claim.actor for claim in batch.claims]
        never = self.tensor(np.zeros(batch.shape, np.bool_))
        counted = None if valid is None else self.tensor(valid)
        scale.update(actors, novelty.reshape(batch.shape), never, counted)

    def _shown(
        self, batch: Batch, rows: Mapping[str, Tensor], index: NDArray[np.int64]
    ) -> Iterator[dict[str, Tensor]]:
        """Observations at flat indices, some at a time."""
        for part in np.array_split(index, -(-len(index) // _AT_ONCE) or 1):
            at = self.tensor(part)
            yield {
                key: self.tensor(batch.take(key, part)) if key in self._piecewise else rows[key][at]
                for key in self._parts
            }

    @torch.no_grad()
    def _judged(self, batch: Batch, rows: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """How new each row's observation is, and what novelty is expected after it: (rows,)."""
        found = []
        for obs in self._shown(batch, rows, np.arange(len(batch))):
            seen = self.scaled(obs)
            new = surprise(self.predictor(seen), self.random(seen))
            found.append((new, self.worth(seen).squeeze(1)))
        novelty, worth = zip(*found, strict=True)
        return torch.cat(novelty), torch.cat(worth)

    def _prepare(self, batch: Batch) -> dict[str, Tensor]:
        """Rows as PPO learns from them, with advantages of both rewards, and returns of novelty."""
        data, s = super()._prepare(batch), self.settings
        novelty, worth = self._judged(batch, data)
        gains, returns = intrinsic_advantages(
            (novelty / self.novelty_scale()).reshape(batch.shape).cpu().numpy(),
            worth.reshape(batch.shape).cpu().numpy(),
            s.novelty_gamma,
            s.lam,
        )
        added = s.novelty_weight * self.tensor(gains.reshape(-1))
        return data | {
            "advantages": s.reward_weight * data["advantages"] + added,
            "novelty": novelty,
            "novelty_returns": self.tensor(returns.reshape(-1)),
        }

    def _learn(
        self, observations: Mapping[str, Tensor], few: Mapping[str, Tensor], by: TimeMajor | None
    ) -> Callable[[], Mapping[str, Tensor]]:
        """Also a step of the predictor with some of the rows, and of the value of novelty."""
        rng = np.random.default_rng((self.context.seed, self.network.steps, 1))
        report, count = super()._learn(observations, few, by), len(few["novelty"])
        some = rng.permutation(count)[: max(1, round(self.settings.predictor_share * count))]
        valid, seen = few.get("valid"), self.scaled(observations)
        worth_loss = self.compiler(self._worth_loss, seen, few["novelty_returns"], valid)
        self.worth.step(worth_loss)
        at = self.tensor(some)
        seen = {name: x[at] for name, x in seen.items()}
        loss = self.compiler(self._predictor_loss, seen, None if valid is None else valid[at])
        self.predictor.step(loss)
        novelty = masked_mean(few["novelty"], valid)
        return lambda: {**report(), "novelty": novelty, "predictor_loss": loss.detach()}

    def _worth_loss(
        self, seen: Mapping[str, Tensor], returns: Tensor, valid: Tensor | None
    ) -> Tensor:
        return 0.5 * masked_mean((self.worth(seen).squeeze(1) - returns).square(), valid)

    def _predictor_loss(self, seen: Mapping[str, Tensor], valid: Tensor | None) -> Tensor:
        return masked_mean(surprise(self.predictor(seen), self.random(seen)), valid)


@builder(RNDSettings)
def workload(settings: RNDSettings) -> Workload:
    """PPO on any environment, also rewarded for observations that are new.

    Sampling and learning alternate, exactly on-policy.
    """
    actor = actor_critic(settings, settings.correlation)
    found = divided(fitted(settings, actor.spec), actor, settings.steps)
    keys = tuple(key.name for key in actor.data_keys())
    return separated(Workload(
        name="rnd",
        actor=actor,
        learner=RND(found),
        triggers={
            "learner.update": DataKeyTrigger(keys, size=found.steps, max_lag=0),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=found.actors, steps=found.steps, total_steps=found.total_steps,
        settings=left_open(found),
    ))  # fmt: skip
