"""Ape-X (Horgan et al. 2018): its settings, its actors, its table; the update is that of DQN."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec.structs import replace
from torch import Tensor

from artos.actors.rollout import RolloutActor
from artos.buffer.samplers.patterns import Prioritised
from artos.errors import Refused
from artos.learners.settings import Actors, Replay, ReplaySettings, builder, table
from artos.losses.rounds import n_step_returns
from artos.policies.acting import ActInfo
from artos.policies.choosing import require_actions
from artos.policies.distributions import OUT
from artos.policies.values import Epsilon, QNetwork
from artos.protocol.invocations import Invoke
from artos.specs.keys import DataKey
from artos.specs.workload import Workload
from triggers.algorithms.defaults import require_numbers
from triggers.algorithms.dqn import DQN, DQNSettings
from triggers.algorithms.replaying import pattern, replay_workload

BEST, CHOSEN, PRIORITIES = "best", "chosen", "priorities"
_SHARED = (
    "agents=separate: actors of Ape-X rate rows by a policy that plays all agents: leave agents "
    "out, or run rainbow, whose learners rate them"
)
_OWN = (
    "inference=central: actors of Ape-X rate rows by networks of their own: set inference=actor, "
    "or run dqn with replay=prioritised and spread=7"
)


class ApeXStart(DQNSettings, frozen=True):
    """By position, as of all algorithms."""

    actors: Actors = 4


class ApeXSettings(ApeXStart, kw_only=True, frozen=True):
    """What can be set of Ape-X, with its defaults."""

    dueling: Annotated[bool, table("value and advantages apart")] = True
    replay: Annotated[Replay, table("how transitions are drawn")] = "prioritised"
    epsilon: Annotated[float, table("share of random actions of the first actor", ge=0, le=1)] = 0.4
    explore: Annotated[float, table("share of the run until then", ge=0, le=1)] = 0.0
    spread: Annotated[float, table("how far actors differ in exploration", ge=0)] = 7.0


class ApeX(DQN):
    """DQN of rows that have their first priorities from actors."""

    Settings: ClassVar[type[ReplaySettings]] = ApeXSettings
    settings: ApeXSettings


class RatingQNetwork(QNetwork):
    """A Q-network that also returns the best value and that of the action it takes."""

    outputs = (BEST, CHOSEN)

    def draw(self, answer: dict[str, Tensor], info: ActInfo) -> dict[str, Tensor]:
        """``actions`` (B,) int64, the best one's value and the taken one's, (B,) float32."""
        values = answer[OUT]
        actions = self.explored(values, info)
        taken = values.gather(1, actions.unsqueeze(1)).squeeze(1)
        return {"actions": actions, BEST: values.max(1).values, CHOSEN: taken}


class RatingActor(RolloutActor):
    """Gives each row its first priority: the TD error by the weights that it acted with.

    They cost no further look at an observation (Horgan et al. 2018, §3). Near the end of a round
    fewer than ``n_step`` rewards are summed.
    """

    def __init__(self, *given: Any, n_step: int, gamma: float, **named: Any) -> None:
        super().__init__(*given, **named)
        self.n_step, self.gamma = n_step, gamma

    def data_keys(self) -> Sequence[DataKey]:
        """Also the priorities."""
        return (*super().data_keys(), DataKey(PRIORITIES))

    def sample(self, start: int, rows: int, call: Invoke) -> dict[str, float]:
        """Also rate the rows."""
        seconds = super().sample(start, rows, call)
        arrays = self._block.arrays
        at = np.arange(start, start + rows) % self._block.spec.capacity
        names = (BEST, "rewards", "terminations", "truncations", "valid")
        best, rewards, over, cut, valid = (arrays[name][at][None] for name in names)
        after = np.zeros_like(best)
        info = dataclasses.replace(self._info, greedy=True)  # draws nothing at random
        after[:, -1] = self._policy.act(self._observations, info)[BEST]
        found = n_step_returns(rewards, best, after, over, cut, self.gamma, self.n_step, valid)
        arrays[PRIORITIES][at] = np.abs(found[0] - arrays[CHOSEN][at])
        return seconds


@builder(ApeXSettings)
def workload(settings: ApeXSettings) -> Workload:
    """Deep Q-learning with many actors, of which each explores in its own way.

    Actor i of N acts at random with probability ``epsilon ** (1 + spread * i / (N - 1))``, so use
    several. Actors and learner work at the same time, as with ``dqn``.
    """
    s = settings
    refused = [_SHARED] * (s.agents == "separate") + [_OWN] * (s.inference == "central")
    if refused:
        raise Refused(refused)
    exploration = Epsilon(end=s.epsilon, share=s.explore, spread=s.spread)
    policy = partial(
        RatingQNetwork,
        hidden=s.hidden,
        dueling=s.dueling,
        epsilon=exploration,
        normalize=s.normalize,
    )
    actor = RatingActor(
        s.env, policy, s.envs, clip_rewards=s.clip_rewards, terminal_lives=s.terminal_lives,
        n_step=s.n_step, gamma=s.gamma,
    )  # fmt: skip
    require_actions(actor.spec, "Ape-X", "discrete")
    require_numbers(actor.spec, s.normalize)
    drawn = pattern(s)
    if isinstance(drawn, Prioritised):
        drawn = replace(drawn, initial=PRIORITIES)
    return replay_workload("apex", actor, ApeX(s), s, s.ratio, drawn)
