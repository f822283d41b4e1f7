"""Rainbow (Hessel et al. 2018): its settings, its update, its table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any, ClassVar

import torch
from msgspec.structs import replace
from torch import Tensor
from torch.nn import functional

from artos.buffer.samplers.patterns import Prioritised
from artos.buffer.samplers.transitions import DISCOUNTS, RETURNS
from artos.envs.spec import EnvSpec
from artos.errors import Refused
from artos.learners.off_policy import Obs
from artos.learners.q_learning import QLearner, QSettings
from artos.learners.settings import (
    OPEN,
    Alpha,
    Hidden,
    Replay,
    ReplaySettings,
    TargetShare,
    builder,
    fitted,
    learner,
    table,
)
from artos.losses.categorical import projected
from artos.policies.categorical import CategoricalQNetwork
from artos.specs.workload import Workload
from triggers.algorithms.replaying import pattern, replay_actor, replay_workload

_NOISY = (
    "inference=central: Rainbow explores by noise in its network, not in its actions: "
    "set inference=actor, or run dqn"
)


class RainbowSettings(QSettings, kw_only=True, frozen=True):
    """What can be set of Rainbow, with its defaults."""

    hidden: Hidden = (128, 128)
    atoms: Annotated[int, table("returns that are told apart", ge=2, le=10_000)] = 51
    v_min: Annotated[float, table("the lowest of them", usual=-200.0, images=-10.0)] = OPEN
    v_max: Annotated[float, table("the highest of them", usual=200.0, images=10.0)] = OPEN
    noise: Annotated[float, table("deviation of noisy weights at first", gt=0)] = 0.5
    replay: Annotated[Replay, table("how transitions are drawn")] = "prioritised"
    alpha: Alpha = 0.5
    beta: Annotated[
        float,
        table("how far weights make up for that at first, 1 in the end", of="replay=prioritised"),
    ] = 0.4
    ratio: Annotated[float, table("how often each transition is drawn")] = 16.0
    target_every: Annotated[int, learner("updates between moves of the target", ge=1)] = 100
    tau: TargetShare = 1.0


class Rainbow(QLearner):
    """Q-learning of distributions, with noisy weights and double, dueling, n-step, prioritised."""

    Settings: ClassVar[type[ReplaySettings]] = RainbowSettings
    settings: RainbowSettings

    def loss(
        self, obs: Obs, following: Obs, rows: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The loss ("The Integrated Agent"), and without gradients its parts (n,) and the value."""
        target: Any = self.target.module
        with torch.no_grad():
            best = self.module(following, noisy=True).argmax(1)
            after = _of(target.log_probs(following, noisy=True), best).exp()
            wanted = projected(self.module.support, after, rows[RETURNS], rows[DISCOUNTS])
        found = _of(self.module.log_probs(obs, noisy=True), rows["actions"])
        each = functional.kl_div(found, wanted, reduction="none").sum(1)
        # By rounding a distance of 0 may come out below it, which is no priority.
        distances, q = each.detach().clamp(min=0), found.detach().exp() * self.module.support
        return (rows["weights"] * each).mean(), distances, q.sum(1).mean()

    def out_of_range(self) -> Iterator[str]:
        """Also returns that are no range."""
        yield from super().out_of_range()
        low, high = self.settings.v_min, self.settings.v_max
        if not -math.inf < low < high < math.inf:
            yield f"v_min must be below v_max, and both finite, not {low} and {high}"


def _of(log_probs: Tensor, actions: Tensor) -> Tensor:
    """The distributions (n, atoms) of one action each."""
    return log_probs[torch.arange(len(actions), device=actions.device), actions]


@builder(RainbowSettings)
def workload(settings: RainbowSettings) -> Workload:
    """Distributional Q-learning with noisy networks on any environment with discrete actions.

    Returns beyond ``v_min`` and ``v_max`` count as these: set both by what an episode can return,
    discounted by ``gamma``. Actors and learner work at the same time, as with ``dqn``.
    """
    s = settings
    if s.inference == "central":
        raise Refused([_NOISY])

    def policy(spec: EnvSpec, _: int) -> Any:
        own = fitted(settings, spec)
        return partial(
            CategoricalQNetwork, hidden=s.hidden, atoms=s.atoms, v_min=own.v_min, v_max=own.v_max,
            noise=s.noise, normalize=s.normalize,
        )  # fmt: skip

    actor = replay_actor(s, "Rainbow", ("discrete",), policy)
    s = fitted(s, actor.spec)
    drawn = pattern(s)
    if isinstance(drawn, Prioritised):
        drawn = replace(drawn, beta=(s.beta, 1.0))
    return replay_workload("rainbow", actor, Rainbow(s), s, s.ratio, drawn)
