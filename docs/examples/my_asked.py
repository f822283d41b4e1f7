"""A reward model that actors ask while it learns, from comparisons (Christiano et al. 2017)."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from artos import (
    PPO,
    Actor,
    ActorContext,
    Batch,
    DataKey,
    Invoke,
    LearnerContext,
    RolloutActor,
    Server,
    ServerContext,
    TorchLearner,
    Workload,
)
from triggers import DataKeyTrigger, ObjectKeyTrigger

STEPS, ENVS, CLIP = 128, 4, 16


def preferred(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Stands for a person who compares clips (n, CLIP, 4): the cart is to be at 1, not at 0."""
    away, further = ((clips[..., 0] - 1).abs().sum(1) for clips in (one, other))
    return away < further


def scorer() -> nn.Module:
    """From what CartPole shows to a score from 0 to 1."""
    return nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1), nn.Sigmoid())


class Preferences(TorchLearner):
    """Learns scores of which the sum is higher in the one of two clips that a teacher prefers."""

    def setup(self, context: LearnerContext) -> None:
        """Own the scorer, in place of the policy's network, and how often it agreed of late."""
        super().setup(dataclasses.replace(context, module=scorer()))
        self.agreed = self.own("agreed", torch.tensor(0.5))

    def fit(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """Have clips of all that was seen compared in pairs, and agree with what was said."""
        rows = self.tensor(batch.gather("observations")).transpose(1, 2)
        clips = rows.reshape(-1, CLIP, 4)
        drawn = np.random.default_rng((self.context.seed, call.firing)).permutation(len(clips))
        one, other = (clips[half] for half in np.split(drawn, 2))
        surer = self.module(one).sum((1, 2)) - self.module(other).sum((1, 2))
        wanted = preferred(one, other)
        self.step(functional.binary_cross_entropy_with_logits(surer, wanted.float()))
        self.agreed().lerp_(((surer > 0) == wanted).float().mean(), 0.02)
        return {"agrees": self.agreed().item(), "place": clips[..., 0].mean().item()}


class Judge(Server):
    """One process has the scorer for all actors, by its newest weights."""

    reads_weights, of = True, "model"

    def asks(self, actor: Actor) -> Sequence[DataKey]:
        """Observations."""
        return (DataKey("seen", (4,)),)

    def answers(self, actor: Actor) -> Sequence[DataKey]:
        """A score of each."""
        return (DataKey("score"),)

    def rows(self, actor: Actor) -> int:
        """A request is a whole round of an actor."""
        return STEPS * ENVS

    def setup(self, context: ServerContext) -> None:
        """Have a scorer for weights to go to."""
        self.scorer = scorer()

    def bind(self, params: np.ndarray, version: int) -> None:
        """Score with these from now on."""
        nn.utils.vector_to_parameters(torch.tensor(params), self.scorer.parameters())

    @torch.no_grad()
    def answer(self, asked: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Score rows, whichever actors they are from."""
        return {"score": self.scorer(torch.from_numpy(asked["seen"])).squeeze(1).numpy()}


class Asking(RolloutActor):
    """Is paid what the judge says of each round, and nothing by the environment."""

    def setup(self, context: ActorContext) -> None:
        """Find the judge's desk, and the block that rows are written to."""
        super().setup(context)
        self.block, (self.judge,) = context.block, context.desks["judge"]

    def sample(self, start: int, rows: int, call: Invoke) -> dict[str, float]:
        """Sample, and put the scores in place of rewards before anyone sees the rows."""
        seconds = super().sample(start, rows, call)
        views = (self.block.views(key, start, start + rows) for key in ("observations", "rewards"))
        for seen, rewards in zip(*views, strict=True):
            scored = self.judge(seen=seen.reshape(-1, 4))
            rewards[...] = scored["score"].reshape(rewards.shape)
        return seconds


def workload(actors: int = 2, total_steps: int = 100_000) -> Workload:
    """What ``artos run my_asked.py:workload`` runs."""
    actor = Asking("CartPole-v1", envs=ENVS)
    keys = tuple(key.name for key in actor.data_keys())
    return Workload(
        name="asked",
        actor=actor,
        learner=PPO(),
        learners={"model": Preferences(lr=3e-3)},
        servers={"judge": Judge()},
        triggers={
            "learner.update": DataKeyTrigger(keys, size=STEPS, max_lag=0),
            "model.fit": DataKeyTrigger("observations", n=1, size=STEPS),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors, steps=STEPS, total_steps=total_steps,
    )  # fmt: skip
