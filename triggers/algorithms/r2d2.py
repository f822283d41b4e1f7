"""R2D2 (Kapturowski et al. 2019): its settings, its update, its table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from artos.buffer.samplers.drawn_batch import DrawnBatch
from artos.buffer.samplers.patterns import Sequences
from artos.buffer.samplers.sequences import MASK
from artos.learners.off_policy import Obs
from artos.learners.q_learning import QLearner
from artos.learners.settings import (
    Actors,
    Alpha,
    Beta,
    Hidden,
    Replay,
    ReplaySettings,
    builder,
    learner,
    table,
)
from artos.losses.windows import rescaled, unscaled, window_returns
from artos.policies.recurrent_values import RecurrentQNetwork
from artos.policies.values import Epsilon
from artos.specs.workload import Workload
from triggers.algorithms.dqn import DQNSettings
from triggers.algorithms.replaying import replay_actor, replay_workload


class R2D2Start(DQNSettings, frozen=True):
    """By position, as of all algorithms."""

    actors: Actors = 4


class R2D2Settings(R2D2Start, kw_only=True, frozen=True):
    """What can be set of R2D2, with its defaults."""

    hidden: Hidden = (64,)
    memory: Annotated[int, table("units of the memory (a GRU)", ge=1)] = 64
    dueling: Annotated[bool, table("value and advantages apart")] = True
    batch: Annotated[int, table("windows in an update")] = 32
    length: Annotated[int, table("rows of a window that are learned from", ge=2)] = 10
    burn_in: Annotated[int, table("rows before them that warm up the memory", ge=0)] = 4
    replay: Annotated[Replay, table("how windows are drawn")] = "prioritised"
    alpha: Alpha = 0.9
    beta: Beta = 0.6
    eta: Annotated[float, learner("largest TD error against their mean", ge=0, le=1)] = 0.9
    rescale: Annotated[bool, learner("learn large values on a smaller scale")] = True
    n_step: Annotated[int, learner("rewards summed before bootstrapping", ge=1)] = 5
    gamma: Annotated[float, learner("discount of later rewards, 0 to 1", ge=0, le=1)] = 0.99
    target_every: Annotated[int, learner("updates between moves of the target", ge=1)] = 100
    tau: Annotated[float, learner("share of the way that targets go at once", gt=0, le=1)] = 1.0
    epsilon: Annotated[float, table("share of random actions of the first actor", ge=0, le=1)] = 0.4
    explore: Annotated[float, table("share of the run until then", ge=0, le=1)] = 0.1
    spread: Annotated[float, table("how far actors differ in exploration", ge=0)] = 7.0


class R2D2(QLearner):
    """Double Q-learning on windows of rows, from a memory that the rows before them warm up."""

    Settings: ClassVar[type[ReplaySettings]] = R2D2Settings
    settings: R2D2Settings
    calls = ("unroll",)

    def observations(self, batch: Mapping[str, Any], prefix: str = "") -> Obs:
        """As of all learners, of single rows: (n, *shape) of those that are learned from."""
        found, counted = super().observations(batch, prefix), self.tensor(batch[MASK])
        return {name: part[counted] for name, part in found.items()}

    def judged(self, batch: DrawnBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Squared TD errors of windows; a priority mixes the largest of them and their mean."""
        s, module, windows = self.settings, self.module, self.windows(batch)
        target: Any = self.target.module
        weights, rows = self.tensor(batch.weights), windows.learned
        rounded = torch.autocast(self.place.device.type, torch.bfloat16, enabled=s.bfloat16)
        with rounded:
            values, _ = module.unroll(rows.obs, windows.warmed_up(module.unroll), rows.ends)
        ahead = window_returns(
            rows.rows["rewards"], rows.rows["terminations"], rows.mask, s.gamma, s.n_step
        )
        with torch.no_grad():
            with rounded:
                rated, _ = target.unroll(rows.obs, windows.warmed_up(target.unroll), rows.ends)
            best = (values if s.double else rated).argmax(-1, keepdim=True)
            after = rated.gather(-1, best).squeeze(-1).gather(0, ahead.steps)
            value = unscaled(after) if s.rescale else after
            wanted = ahead.returns + ahead.discounts * value
            wanted = rescaled(wanted) if s.rescale else wanted
        found = values.gather(-1, rows.rows["actions"].unsqueeze(-1)).squeeze(-1)
        errors = torch.where(ahead.counts, found - wanted, 0.0)
        many = ahead.counts.sum(0).clamp(min=1)
        self.replicas.weigh(many.sum())  # the loss is a mean over rows that count
        loss = (weights * errors.square().sum(0)).sum() / many.sum()
        size = errors.detach().abs()
        priorities = s.eta * size.amax(0) + (1 - s.eta) * size.sum(0) / many
        return loss, priorities, (found.detach() * ahead.counts).sum() / many.sum()


@builder(R2D2Settings)
def workload(settings: R2D2Settings) -> Workload:
    """Recurrent deep Q-learning with many actors, of which each explores in its own way.

    Windows of ``length`` rows are drawn; ``burn_in`` rows before them warm up the memory from the
    state that is stored. Rows are drawn ``ratio`` times on average, as with ``dqn``.
    """
    s = settings
    exploration = Epsilon(end=s.epsilon, share=s.explore, spread=s.spread)
    policy = partial(
        RecurrentQNetwork, hidden=s.hidden, width=s.memory, dueling=s.dueling, epsilon=exploration,
        normalize=s.normalize,
    )  # fmt: skip
    actor = replay_actor(s, "R2D2", ("discrete",), lambda *_: policy)
    alpha = s.alpha if s.replay == "prioritised" else 0.0
    drawn = Sequences(s.batch, s.length, s.burn_in, alpha, s.beta)
    return replay_workload("r2d2", actor, R2D2(s), s, s.ratio, drawn)
