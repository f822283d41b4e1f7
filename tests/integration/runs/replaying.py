"""A user's own off-policy algorithm: a clock fires learner and actors, rows come from replay."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean
from typing import Any

import torch

from artos import (
    DataKey,
    Prioritised,
    RolloutActor,
    TorchLearner,
    Uniform,
    UniformSampler,
    Workload,
)
from artos.errors import NothingToSample
from triggers import ReplayTrigger, RoundTrigger, TimeTrigger


class ValueLearner(TorchLearner):
    """Fits the critic to the rewards of rows drawn uniformly from all of the replay buffer."""

    def setup(self, context: Any) -> None:
        super().setup(context)
        keys = ("observations", "rewards")
        self._sampler = (
            UniformSampler(context.blocks, keys, 64, seed=context.seed) if context.blocks else None
        )
        self._lags: list[int] = []

    def draw(self, batch: Any, call: Any) -> dict[str, float]:
        """One step on 64 rows; what is drawn from is what all actors wrote."""
        assert batch is None
        assert self._sampler is not None
        try:
            drawn = self._sampler.sample()
        except NothingToSample:
            return {}
        values = self.module.value({"observations": torch.from_numpy(drawn["observations"])})
        loss = (values - torch.from_numpy(drawn["rewards"])).square().mean()
        drawn_at = self.network.steps  # each step makes a version, the first one starts from 0
        self.step(loss)
        self._lags += (drawn_at - drawn["policy_version"]).clip(min=0).tolist()
        actors = len({int(actor) for actor in drawn["index"][:, 0]})
        return {
            "loss": float(loss.detach()),
            "actors_drawn": float(actors),
            "own_lag": mean(self._lags),
        }


def workload(total_steps: int = 20_000) -> Workload:
    """Sampling and learning run by the clock and never wait for one another (paper Table 3)."""
    return Workload(
        name="temporal",
        actor=RolloutActor("CartPole-v1", envs=2),
        learner=ValueLearner(lr=0.01),
        triggers={
            "learner.draw": TimeTrigger(0.002),
            "actors.sample": TimeTrigger(0.001),
        },
        actors=2,
        steps=50,
        capacity=2000,
        on_full="overwrite",
        total_steps=total_steps,
    )


class DrawnLearner(TorchLearner):
    """The same on the batches that its trigger has drawn."""

    def update(self, batch: Any, call: Any) -> dict[str, float]:
        """One step, and priorities by error."""
        values = self.module.value({"observations": torch.from_numpy(batch["observations"])})
        errors = values - torch.from_numpy(batch["rewards"])
        loss = (torch.from_numpy(batch.weights) * errors.square()).mean()
        self.step(loss)
        batch.prioritise(errors.detach().abs().numpy())
        return {"loss": float(loss.detach()), "returns": float(batch["n_step.returns"].mean())}


class Surprised(RolloutActor):
    """Says how surprising each row is: how far its value is from the reward."""

    def data_keys(self) -> Any:
        return (*super().data_keys(), DataKey("surprise"))

    def setup(self, context: Any) -> None:
        super().setup(context)
        self._rows = context.block

    def sample(self, start: int, rows: int, call: Any) -> dict[str, float]:
        times = super().sample(start, rows, call)
        arrays = self._rows.arrays
        for place in (self._rows.index(step) for step in range(start, start + rows)):
            arrays["surprise"][place] = abs(arrays["rewards"][place] - arrays["values"][place])
        return times


class Sceptic(DrawnLearner):
    """Remembers the weights of its first batch, whose rows it has given no priorities."""

    first = 0.0

    def update(self, batch: Any, call: Any) -> dict[str, float]:
        self.first = self.first or float(batch.weights.min())
        return super().update(batch, call) | {"first_weight": self.first}


def surprised(total_updates: int = 40) -> Workload:
    """Ape-X: actors give their rows first priorities."""
    base = replayed()
    keys = ("observations", "rewards", "terminations", "truncations")
    pattern = Prioritised(64, alpha=1.0, beta=(0.4, 1.0), initial="surprise")
    update = {"learner.update": ReplayTrigger(keys, pattern, ratio=1.0, after=200)}
    return replace(
        base,
        name="surprised",
        actor=Surprised("CartPole-v1", envs=2),
        learner=Sceptic(lr=0.01),
        triggers={**base.triggers, **update},
        total_steps=0,
        total_updates=total_updates,
    )


def replayed(
    total_steps: int = 6_000,
    prioritised: bool = False,
    max_lag: int | None = None,
    capacity: int = 2_000,
    env: str = "CartPole-v1",
) -> Workload:
    """Replay as a trigger: every transition is drawn eight times, whoever is faster."""
    keys = ("observations", "rewards", "terminations", "truncations")
    pattern = Prioritised(64, n_step=3) if prioritised else Uniform(64, n_step=3)
    return Workload(
        name="replayed",
        actor=RolloutActor(env, envs=2),
        learner=DrawnLearner(lr=0.01),
        triggers={
            "learner.update": ReplayTrigger(keys, pattern, ratio=8.0, after=1_000, max_lag=max_lag),
            "actors.sample": RoundTrigger(),
        },
        actors=2,
        steps=20,
        capacity=capacity,
        on_full="overwrite",
        total_steps=total_steps,
    )
