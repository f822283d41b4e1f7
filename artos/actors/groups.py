"""The actor of algorithms that compare: each group of environments begins a round alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from artos.actors.context import ActorContext
from artos.actors.rollout import RolloutActor
from artos.envs.spec import EnvSpec
from artos.policies.served_text import ServedText
from artos.protocol.invocations import Invoke
from artos.specs.keys import VERSION_KEY
from artos.system.random_streams import Purpose, seed_of
from artos.transport.weights.channel import Floats, Way
from artos.transport.weights.http import Served


class GroupActor(RolloutActor):
    """Steps ``groups`` times ``group`` copies of ``env``; neighbours of a group have one seed.

    All of them are reset when a round begins, so each row of a round up to an environment's first
    end belongs to an episode whose beginning the whole group shares. What an environment does in
    the round after that is its own.

    ``weights`` is the way that versions take. With ``http`` a server acts in place of the policy,
    and rows are of the version by which it answered.
    """

    kept: ClassVar[tuple[str, ...]] = (*RolloutActor.kept, "_random", "version")

    def __init__(
        self,
        env: str,
        policy: Callable[[EnvSpec], Any],
        groups: int,
        group: int,
        weights: Way = Way(),  # noqa: B008  # frozen
    ) -> None:
        super().__init__(env, policy, groups * group)
        self.group, self.weights = group, weights

    @property
    def acts_as_bound(self) -> bool:  # type: ignore[override]  # follows from the way
        """Not where versions come as files, or a server acts."""
        return self.weights.kind == "block"

    def setup(self, context: ActorContext) -> None:
        """Become the actor of ``context``."""
        super().setup(context)
        self._random = np.random.default_rng(seed_of(context.seed, Purpose.CHOICES))
        plan = context.plan
        # Else, as where a run's policy is recorded, episodes are as long as they are, and the
        # weights are at hand.
        self._learned_from = bool(plan.objects)
        way = self.weights if plan.objects and not context.replays else Way()
        self._channel = way.opened(plan.layout, plan.resumes, _PATIENCE * plan.deadline)
        self._served: ServedText | None = None
        if isinstance(self._channel, Served):
            tokens = self.spec.actions.sizes[0]
            seed = seed_of(context.seed, Purpose.POLICY)
            self._served = ServedText(self._channel, tokens, plan.steps, seed)
            self._policy = self._served

    def bind(self, params: Floats, version: int) -> None:
        """Act with the newest version that came on the way of the weights."""
        if version != self.version:  # an actor that goes on from a snapshot has what it acts with
            version, params = self._channel.receive(version, params)
        self.bound = replace(self.bound, version=version, params=params)
        super().bind(params, version)

    def sample(self, start: int, rows: int, call: Invoke) -> dict[str, float]:
        """Write the rows of a round; if it is learned from, all episodes begin in its first one."""
        if self._learned_from:
            seed = int(self._random.integers(2**31))
            self._observations = self._stepper.reset(seed, alike=self.group)
        seconds = super().sample(start, rows, call)
        if self._served is not None:
            answered = self._served.versions[-rows:]
            for versions in self._block.views(VERSION_KEY, start, start + rows):
                versions[...] = answered[: len(versions)]
                answered = answered[len(versions) :]
            self.version = int(versions[-1])
        return seconds


_PATIENCE = 0.8
"""Share of the run's deadline: it says what it waits for before it is ended for silence."""
