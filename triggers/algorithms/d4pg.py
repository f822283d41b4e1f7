"""D4PG (Barth-Maron et al. 2018): its settings, its update, its table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from artos.buffer.samplers.transitions import DISCOUNTS, RETURNS
from artos.learners.off_policy import Obs
from artos.learners.settings import Actors, NStep, ReplaySettings, builder, learner, table
from artos.losses.categorical import projected
from artos.specs.workload import Workload
from triggers.algorithms.ddpg import DDPG, DDPGSettings
from triggers.algorithms.replaying import deterministic_workload


class D4PGStart(DDPGSettings, frozen=True):
    """By position, of D4PG."""

    actors: Actors = 4


class D4PGSettings(D4PGStart, kw_only=True, frozen=True):
    """What can be set of D4PG, with its defaults."""

    n_step: NStep = 5
    noise: Annotated[float, table("deviation of the exploration, in half the range")] = 0.3
    v_min: Annotated[float, learner("lowest return of the critic's distributions")] = -1000.0
    v_max: Annotated[float, learner("highest return of the critic's distributions")] = 1000.0
    atoms: Annotated[int, learner("how many returns they tell apart", ge=2, le=10_000)] = 101


class D4PG(DDPG):
    """DDPG whose critic learns how returns are distributed, by several actors and over n steps.

    Returns, discounted, are expected within ``v_min`` and ``v_max``; beyond them they count as the
    nearer one. Targets follow by ``tau`` at each update, where the paper copies them now and then.
    """

    Settings: ClassVar[type[ReplaySettings]] = D4PGSettings
    settings: D4PGSettings

    @property
    def outputs(self) -> int:
        """Those of the critic: a logit for each return."""
        return self.settings.atoms

    @property
    def support(self) -> Tensor:
        """The returns that are told apart, (atoms,)."""
        s = self.settings
        return torch.linspace(s.v_min, s.v_max, s.atoms, device=self.place.device)

    def out_of_range(self) -> Iterator[str]:
        """Also a range of returns that is none."""
        yield from super().out_of_range()
        low, high = self.settings.v_min, self.settings.v_max
        if not -math.inf < low < high < math.inf:
            yield f"v_min must be below v_max, and both finite, not {low} and {high}"

    def _critic_loss(
        self, obs: Obs, following: Obs, rows: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The divergence, and without gradients that of each row (n,) and the mean value.

        Its gradients are those of the cross-entropy, which would be no measure of what can be
        learned of a row: the entropy of what is wanted is in it.
        """
        support = self.support
        with torch.no_grad():
            after = self.targets(following, self.target(following)).squeeze(0).softmax(1)
            wanted = projected(support, after, rows[RETURNS], rows[DISCOUNTS])
        found = self.critics(obs, self.module.bounds.unit(rows["actions"])).squeeze(0)
        logs = functional.log_softmax(found, 1)
        errors = functional.kl_div(logs, wanted, reduction="none").sum(1)
        loss = (rows["weights"] * errors).mean()
        # By rounding a distance of 0 may come out below it, which is no priority.
        distances, q = errors.detach().clamp(min=0), found.detach().softmax(1) * support
        return loss, distances, q.sum(1).mean()

    def _policy_loss(self, obs: Obs) -> Tensor:
        """Eq. 4: the critic's value is the mean of its distribution."""
        found: Tensor = self.critics(obs, self.module(obs)).squeeze(0)
        return -(found.softmax(1) * self.support).sum(1).mean()


@builder(D4PGSettings)
def workload(settings: D4PGSettings) -> Workload:
    """Distributed distributional policy gradients on continuous actions with bounds.

    Actors and learner work at the same time; after ``after`` transitions each one is drawn
    ``ratio`` times on average, by default one update per environment step.
    """
    return deterministic_workload("d4pg", D4PG(settings), settings, settings.noise)
