"""REINFORCE (Williams 1992): its settings, its update, its table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from artos import Batch, Invoke, Policy, RolloutActor, TorchLearner, Workload, advantages
from artos.learners.settings import (
    ActorSettings,
    EntropyBonus,
    Envs,
    Hidden,
    LongestGradient,
    Steps,
    builder,
    learner,
    out_of_range,
)
from triggers import DataKeyTrigger, ObjectKeyTrigger


class ReinforceSettings(ActorSettings, kw_only=True, frozen=True):
    """Those of REINFORCE."""

    envs: Envs = 4
    steps: Steps = 256
    hidden: Hidden = (64, 64)
    lr: Annotated[float, learner("step size", gt=0)] = 1e-2
    gamma: Annotated[float, learner("discount of later rewards, 0 to 1", ge=0, le=1)] = 0.99
    ent_coef: EntropyBonus = 0.0
    max_grad_norm: LongestGradient = 0.5


class Reinforce(TorchLearner):
    """One gradient step with a round: each action is weighted by the rewards that followed it.

    Rewards count up to the end of the episode or, if that comes first, of the round. The baseline
    is the mean over all rows.
    """

    calls: ClassVar[tuple[str, ...]] = ("evaluate",)
    reads: ClassVar[tuple[str, ...]] = ("actions", "rewards", "terminations", "truncations")

    def __init__(self, settings: ReinforceSettings) -> None:
        super().__init__(settings.lr, settings.max_grad_norm)
        self.settings = settings

    def out_of_range(self) -> Iterator[str]:
        """Settings that no run could use."""
        return out_of_range(self.settings)

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """Learn from the rows of a round, whose arrays are (actors, steps, environments, ...)."""
        rewards, terminations, truncations = map(batch.gather, self.reads[1:])
        nothing = np.zeros_like(rewards)  # no critic: nothing is expected beyond what came
        returns, _ = advantages(
            rewards, nothing, nothing, terminations, truncations, self.settings.gamma, lam=1.0
        )
        shown = [name for name in batch.names if name.startswith("observations")]
        observations = {name: self._flat(batch.gather(name)) for name in shown}
        actions = self._flat(batch.gather("actions"))
        log_probs, entropy, _ = self.module.evaluate(observations, actions)  # type: ignore[operator]
        weight = self._flat((returns - returns.mean()) / (returns.std() + 1e-8))
        policy_loss = -(weight * log_probs).mean()
        self.step(policy_loss - self.settings.ent_coef * entropy.mean())
        return {"policy_loss": policy_loss.item(), "entropy": entropy.mean().item()}

    def _flat(self, array: NDArray[np.generic]) -> Tensor:
        """The first three axes as one: a row for each step of an environment."""
        return self.tensor(array.reshape(-1, *array.shape[3:]))


@builder(ReinforceSettings)
def workload(settings: ReinforceSettings) -> Workload:
    """REINFORCE on any environment; sampling and learning alternate."""
    actor = RolloutActor(settings.env, Policy(hidden=settings.hidden), settings.envs)
    keys = tuple(key.name for key in actor.data_keys())
    return Workload(
        name="reinforce",
        actor=actor,
        learner=Reinforce(settings),
        triggers={
            "learner.update": DataKeyTrigger(keys, size=settings.steps, max_lag=0),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=settings.actors,
        steps=settings.steps,
        total_steps=settings.total_steps,
    )
