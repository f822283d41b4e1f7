"""DQN (Mnih et al. 2015): its settings, its update, its table (paper Tables 1 and 3)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from artos.buffer.samplers.drawn_batch import DrawnBatch
from artos.learners.off_policy import Obs
from artos.learners.q_learning import QLearner, QSettings
from artos.learners.settings import Hidden, ReplaySettings, builder, learner, table
from artos.policies.analytic_values import AnalyticValues
from artos.policies.values import Epsilon, QNetwork
from artos.specs.workload import Workload
from artos.system.overriding import has_own
from triggers.algorithms.replaying import replay_actor, replay_workload


class DQNSettings(QSettings, kw_only=True, frozen=True):
    """What can be set of DQN, with its defaults."""

    hidden: Hidden = (256, 256)
    dueling: Annotated[bool, table("value and advantages apart")] = False
    double: Annotated[bool, learner("choose by the network, rate by its target")] = True
    ratio: Annotated[float, table("how often each transition is drawn")] = 16.0
    epsilon: Annotated[float, table("share of random actions in the end", ge=0, le=1)] = 0.05
    explore: Annotated[float, table("share of the run until then", ge=0, le=1)] = 0.15
    spread: Annotated[float, table("how far actors differ in exploration (Ape-X: 7)", ge=0)] = 0.0


class DQN(QLearner):
    """Q-learning on TD errors.

    ``double`` chooses the following action by the network and rates it by the target (van Hasselt
    et al. 2016).
    """

    Settings: ClassVar[type[ReplaySettings]] = DQNSettings
    settings: DQNSettings

    def setup(self, context: Any) -> None:
        """Also find out whether autograd is needed."""
        super().setup(context)
        changed = has_own(type(self), DQN, "loss", "judged", "wanted", "step")
        needed = changed or self.settings.bfloat16 or self.compile == "on"
        self._analytic = None if needed else AnalyticValues.of(self.module)

    def loss(
        self, obs: Obs, following: Obs, rows: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Huber's loss, and without gradients how large TD errors are (n,) and the mean value."""
        wanted = self._bootstrapped(following, rows)
        found = self.module(obs).gather(1, rows["actions"].unsqueeze(1)).squeeze(1)
        each = functional.smooth_l1_loss(found, wanted, reduction="none")
        seen = found.detach()
        return (rows["weights"] * each).mean(), (seen - wanted).abs(), seen.mean()

    @torch.no_grad()
    def _bootstrapped(self, following: Obs, rows: Mapping[str, Tensor]) -> Tensor:
        values: Tensor = self.target(following)
        if self.settings.double:
            best = self.module(following).argmax(1, keepdim=True)
            return self.wanted(rows, values.gather(1, best).squeeze(1))
        return self.wanted(rows, values.max(1).values)

    def _stepped_on(self, batch: DrawnBatch) -> tuple[Tensor, Tensor, Tensor]:
        if self._analytic is None:
            return super()._stepped_on(batch)
        rows = self.rows(batch)
        chosen = rows["actions"].unsqueeze(1)
        values = self._analytic.evaluate(self.observations(batch))
        found = values.gather(1, chosen).squeeze(1)
        errors = found - self._bootstrapped(self.following(batch), rows)
        felt = errors.clamp(-1, 1)  # the derivative of Huber's loss
        weights = rows["weights"] * (self.replicas.share / len(errors))
        gradient = torch.zeros_like(values).scatter_(1, chosen, (weights * felt).unsqueeze(1))
        self._analytic.backward(gradient)
        self.network.step_written()
        return (rows["weights"] * felt * (errors - felt / 2)).mean(), errors.abs(), found.mean()


@builder(DQNSettings)
def workload(settings: DQNSettings) -> Workload:
    """Deep Q-learning on any environment with discrete actions.

    Actors and learner work at the same time; after ``after`` transitions each one is drawn
    ``ratio`` times on average; the faster side waits for the other.
    """
    s = settings
    exploration = Epsilon(end=s.epsilon, share=s.explore, spread=s.spread)
    policy = partial(
        QNetwork, hidden=s.hidden, dueling=s.dueling, epsilon=exploration, normalize=s.normalize
    )
    actor = replay_actor(s, "DQN", ("discrete",), lambda *_: policy)
    return replay_workload("dqn", actor, DQN(settings), settings, s.ratio)
